use super::*;

const fn contender(name: &'static str, role: Role) -> Contender {
    Contender {
        name,
        role,
        measure: |_| Ok(Vec::new()),
    }
}

const fn row(contenders: &'static [Contender], targets: &'static [Target]) -> Row {
    Row {
        id: "a",
        what: "a row",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 1,
        contenders,
        targets,
    }
}

/// The figures of a row whose contenders took one turn each, with these samples; none means not installed.
fn figures(row: &'static Row, samples: &[Option<f64>]) -> RowFigures {
    let mut measured = Measured::of(row);
    for (contender, sample) in measured.contenders.iter_mut().zip(samples) {
        contender.turns.extend(sample.map(|sample| vec![sample]));
    }
    measured.figures("2026-01-01", "a machine")
}

fn ratios(figures: &RowFigures) -> Vec<(&str, Option<&str>, f64)> {
    figures
        .contenders
        .iter()
        .filter_map(|it| {
            let ratio = it.ratio.as_ref()?;
            Some((it.name.as_str(), ratio.to.as_deref(), ratio.times))
        })
        .collect()
}

#[test]
fn a_ratio_is_to_the_floor_that_the_target_names() {
    static ROW: Row = row(
        &[
            contender("slow floor", Role::Floor),
            contender("fast floor", Role::Floor),
            contender("cf", Role::Ours),
            contender("peer", Role::Peer("peer")),
        ],
        &[
            Target::TimesAtMost {
                ours: "cf",
                other: "fast floor",
                times: 3.0,
            },
            Target::TimesAtMost {
                ours: "cf",
                other: "peer",
                times: 0.5,
            },
        ],
    );
    let figures = figures(&ROW, &[Some(2.0), Some(1.0), Some(4.0), Some(6.0)]);
    assert_eq!(
        ratios(&figures),
        [
            ("slow floor", Some("slow floor"), 1.0),
            ("fast floor", Some("slow floor"), 0.5),
            ("cf", Some("fast floor"), 4.0),
            ("peer", Some("slow floor"), 3.0),
        ]
    );
    let targets: Vec<_> = figures.targets.iter().map(|it| (it.at, it.met)).collect();
    // Half of the peer, which takes six times what the fast floor takes.
    assert_eq!(
        targets,
        [(Some(3.0), Some(false)), (Some(3.0), Some(false))]
    );
}

#[test]
fn without_a_floor_the_limit_is_one() {
    static ROW: Row = row(
        &[contender("cf", Role::Ours), contender("large", Role::Ours)],
        &[
            Target::Limit {
                ours: "cf",
                limit: 16.0,
            },
            Target::Limit {
                ours: "large",
                limit: 40.0,
            },
        ],
    );
    let figures = figures(&ROW, &[Some(8.0), Some(48.0)]);
    assert_eq!(ratios(&figures), [("cf", None, 0.5), ("large", None, 3.0)]);
    let targets: Vec<_> = figures.targets.iter().map(|it| (it.at, it.met)).collect();
    assert_eq!(targets, [(Some(1.0), Some(true)), (Some(2.5), Some(false))]);
}

#[test]
fn who_is_not_there_is_left_out_and_what_hangs_on_it_is_unknown() {
    static ROW: Row = row(
        &[
            contender("floor", Role::Floor),
            contender("cf", Role::Ours),
            contender("peer", Role::Peer("peer")),
        ],
        &[Target::TimesAtMost {
            ours: "cf",
            other: "peer",
            times: 0.5,
        }],
    );
    let figures = figures(&ROW, &[Some(1.0), Some(2.0), None]);
    assert_eq!(figures.contenders.len(), 2);
    assert_eq!(
        (figures.targets[0].at, figures.targets[0].met),
        (None, None)
    );
}
