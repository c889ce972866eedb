use std::fs;
use std::path::Path;

use super::*;
use crate::bench::figures::Ratio;
use crate::bench::record::{FIGURES, PICTURE, Record};
use test_case::test_case;

fn contender(name: &str, part: Part, times: f64) -> Figures {
    Figures {
        name: name.to_owned(),
        part,
        figure: times * 2.0,
        quartiles: [times, times * 3.0],
        n: 5,
        ratio: Some(Ratio {
            to: Some("spawn + wait".to_owned()),
            times,
            spread: times / 4.0,
        }),
    }
}

fn row() -> RowFigures {
    RowFigures {
        id: "a".to_owned(),
        what: "tasks & <agents>".to_owned(),
        unit: "ms".to_owned(),
        more_is_better: false,
        date: "2026-01-02".to_owned(),
        machine: "two cores".to_owned(),
        contenders: vec![
            contender("spawn + wait", Part::Floor, 1.0),
            contender("cf", Part::Cf, 1.5),
            contender("a \"peer\"", Part::Peer, 120.0),
        ],
        targets: vec![Verdict {
            ours: "cf".to_owned(),
            target: "cf at most 1.3 × spawn + wait".to_owned(),
            at: Some(1.3),
            met: Some(false),
        }],
    }
}

/// The names of the elements, opened and closed in their order; it panics where one is closed that is not open.
fn elements(svg: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("every tag ends");
        assert!(!text.contains('>'), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split_whitespace().next().unwrap().to_owned();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        seen.push(name.trim_end_matches('/').to_owned());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    seen
}

#[test]
fn it_is_well_formed_whatever_is_named_in_it() {
    let svg = draw(&[row()]);
    let seen = elements(&svg);
    assert_eq!(seen[0], "svg");
    assert!(svg.contains("tasks &amp; &lt;agents&gt;"));
    assert!(svg.contains("a &quot;peer&quot;"));
}

#[test]
fn what_a_bar_shows_is_also_said() {
    let svg = draw(&[row()]);
    // In the picture, and in the description for those who do not see it.
    assert_eq!(svg.matches("1.5 ×, 3 ms; ≤ 1.3 missed").count(), 3);
    assert!(svg.contains("role=\"img\" aria-labelledby=\"title description\""));
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn the_scale_has_room_for_everybody_and_one_is_where_bars_begin() {
    let row = row();
    let scale = Scale::of(&[&row]);
    assert_eq!((scale.low, scale.high), (-1, 3));
    assert!((scale.x(10.0) - f64::midpoint(LEFT, RIGHT)).abs() < 1e-9);
    // Nothing is drawn outside.
    assert!(scale.x(0.0) >= LEFT);
}

#[test]
fn counts_of_instructions_are_not_drawn() {
    let counted = RowFigures {
        unit: "instructions".to_owned(),
        ..row()
    };
    assert!(!draw(&[counted]).contains("agents"));
}

#[test_case(0.0 => "0")]
#[test_case(0.012_34 => "0.0123")]
#[test_case(1.0 => "1")]
#[test_case(1.529 => "1.53")]
#[test_case(57.2 => "57.2")]
#[test_case(999.6 => "1000")]
#[test_case(9_996.0 => "10,000")]
#[test_case(107_123.0 => "107,000")]
#[test_case(1_234_567.0 => "1,230,000")]
fn three_digits_are_shown(value: f64) -> String {
    short(value)
}

#[test]
fn the_committed_picture_is_that_of_the_committed_figures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let record = Record::read(&root).unwrap();
    let committed = fs::read_to_string(root.join(PICTURE)).unwrap();
    assert!(
        committed == draw(&record.drawn()),
        "{PICTURE} is not drawn from {FIGURES}: `cargo xtask bench --draw` draws it"
    );
}
