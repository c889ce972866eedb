//! The picture: of every row a bar for each contender, on one logarithmic scale of ratios.
//!
//! It says everything three times, by length, by pattern and in words, so that nobody needs the colours. It follows the
//! reader's choice of light or dark, and a reader that shows no pictures has its description.

use std::fmt::Write as _;

use crate::bench::figures::{Figures, Part, Ratio, RowFigures, Verdict};

const WIDTH: f64 = 1000.0;
/// Where the plot begins and ends.
const LEFT: f64 = 270.0;
const RIGHT: f64 = 650.0;
const TOP: f64 = 118.0;
const HEADING: f64 = 30.0;
const LINE: f64 = 19.0;
const BAR: f64 = 11.0;

const STYLE: &str = "
  svg { --paper: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #d1d9e0; --ours: #0a5cc4; --peer: #8c959f; --mark: #b3430b }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #f0f6fc; --quiet: #9aa4af; --grid: #30363d; --ours: #58a6ff; --peer: #7d8590; --mark: #ffa657 }
  }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--ink);
    paint-order: stroke; stroke: var(--paper); stroke-width: 4px }
  .title { font-size: 17px; font-weight: 600 }
  .what { font-weight: 600 }
  .quiet { fill: var(--quiet) }
  .ours { fill: var(--ours) }
  .bold { font-weight: 600 }
  .peer { fill: url(#stripes); stroke: var(--peer) }
  .stripe { stroke: var(--peer); stroke-width: 2 }
  .floor { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5 }
  .grid { stroke: var(--grid) }
  .one { stroke: var(--ink); stroke-width: 1.5 }
  .spread { stroke: var(--ink); stroke-width: 1.5 }
  .mark { stroke: var(--mark); stroke-width: 2; fill: var(--mark) }
";

/// The rows that have ratios to draw; instructions are a table's business.
fn drawn(rows: &[RowFigures]) -> Vec<&RowFigures> {
    rows.iter()
        .filter(|row| row.unit != "instructions")
        .filter(|row| row.contenders.iter().any(|it| it.ratio.is_some()))
        .collect()
}

/// Draws the rows. The same rows give the same text.
pub(crate) fn draw(rows: &[RowFigures]) -> String {
    let rows = drawn(rows);
    let scale = Scale::of(&rows);
    let lines: usize = rows.iter().map(|row| bars(row).count()).sum();
    let height = TOP + rows.len() as f64 * HEADING + lines as f64 * LINE + 34.0;
    let mut svg = String::new();
    let mut put = |text: &str| {
        svg.push_str(text);
        svg.push('\n');
    };
    put(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title description\">"
    ));
    put("<title id=\"title\">cf beside its floors and its peers</title>");
    put(&format!(
        "<desc id=\"description\">{}</desc>",
        escaped(&described(&rows))
    ));
    put(&format!("<style>{STYLE}</style>"));
    put(
        "<defs><pattern id=\"stripes\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><path class=\"stripe\" d=\"M0 0V6\"/></pattern></defs>",
    );
    put(&format!(
        "<rect width=\"{WIDTH}\" height=\"{height}\" style=\"fill: var(--paper)\"/>"
    ));
    put(&legend(&rows));
    put(&scale.grid(height));
    let mut y = TOP;
    for row in &rows {
        put(&heading(row, y));
        y += HEADING;
        for contender in bars(row) {
            put(&bar(row, contender, &scale, y));
            y += LINE;
        }
    }
    put("</svg>");
    svg
}

/// The ratios' axis, logarithmic, in whole decades.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn of(rows: &[&RowFigures]) -> Self {
        let ratios = || {
            let times = |row: &&RowFigures| -> Vec<f64> {
                let ratios = row.contenders.iter().filter_map(|it| it.ratio.as_ref());
                let marks = row.targets.iter().filter_map(|target| target.at);
                ratios.map(|ratio| ratio.times).chain(marks).collect()
            };
            rows.iter().flat_map(times).filter(|times| *times > 0.0)
        };
        let low = ratios().fold(0.5, f64::min).log10().floor() as i32;
        let high = ratios().fold(2.0, f64::max).log10().ceil() as i32;
        Self { low, high }
    }

    fn x(&self, times: f64) -> f64 {
        let low = f64::from(self.low);
        let share = (times.log10().max(low) - low) / f64::from(self.high - self.low);
        LEFT + share * (RIGHT - LEFT)
    }

    fn grid(&self, height: f64) -> String {
        let mut grid = String::new();
        for decade in self.low..=self.high {
            let times = 10f64.powi(decade);
            let x = self.x(times);
            let class = if decade == 0 { "one" } else { "grid" };
            let (top, bottom) = (TOP - 12.0, height - 26.0);
            write!(
                grid,
                "<path class=\"{class}\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"
            )
            .expect("writing to a string cannot fail");
            for y in [TOP - 17.0, height - 11.0] {
                write!(
                    grid,
                    "<text class=\"quiet\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{times} ×</text>"
                )
                .expect("writing to a string cannot fail");
            }
        }
        grid
    }
}

fn legend(rows: &[&RowFigures]) -> String {
    let mut days: Vec<&str> = rows.iter().map(|row| row.date.as_str()).collect();
    days.sort_unstable();
    days.dedup();
    // The disk, which stands behind it, is another one from row to row.
    let machine = rows.first().map_or("", |row| row.machine.as_str());
    let machine = machine.split("; ").next().unwrap_or_default();
    format!(
        "<text class=\"title\" x=\"16\" y=\"28\">cf beside its floors and its peers</text>\n\
         <text class=\"quiet\" x=\"16\" y=\"48\">How many times the floor: shorter is better, unless the row says otherwise. \
         {}; {}</text>\n\
         <rect class=\"ours\" x=\"16\" y=\"62\" width=\"26\" height=\"{BAR}\"/><text x=\"48\" y=\"72\">cf</text>\n\
         <rect class=\"peer\" x=\"80\" y=\"62\" width=\"26\" height=\"{BAR}\"/><text x=\"112\" y=\"72\">peer</text>\n\
         {}<text x=\"176\" y=\"72\">floor</text>\n\
         {}<text x=\"236\" y=\"72\">target of cf</text>\n\
         <path class=\"spread\" d=\"M326 67.5h20m-20 -4v8m20 -8v8\"/><text x=\"354\" y=\"72\">spread from round to round</text>",
        escaped(&days.join(", ")),
        escaped(machine),
        diamond(163.0, 67.5),
        mark(225.0, 62.0),
    )
}

fn heading(row: &RowFigures, y: f64) -> String {
    let one = row.contenders.iter().find_map(|it| {
        let ratio = it.ratio.as_ref().filter(|ratio| ratio.times > 0.0)?;
        let figure = it.figure / ratio.times;
        Some(format!(
            "1 = {} ({} {})",
            reference(ratio),
            short(figure),
            row.unit
        ))
    });
    let one = one.unwrap_or_default();
    let better = if row.more_is_better {
        " Longer to the right is better."
    } else {
        ""
    };
    format!(
        "<text x=\"16\" y=\"{:.1}\"><tspan class=\"what\">{}</tspan><tspan class=\"quiet\">  {}.{better}</tspan></text>",
        y + 21.0,
        escaped(&row.what),
        escaped(&one),
    )
}

fn reference(ratio: &Ratio) -> &str {
    ratio.to.as_deref().unwrap_or("the limit")
}

fn bars(row: &RowFigures) -> impl Iterator<Item = &Figures> {
    // Of the floor that is 1 the heading has said everything.
    row.contenders.iter().filter(|it| {
        let to = it.ratio.as_ref().and_then(|ratio| ratio.to.as_deref());
        it.part != Part::Floor || to != Some(it.name.as_str())
    })
}

fn bar(row: &RowFigures, contender: &Figures, scale: &Scale, y: f64) -> String {
    let middle = y + LINE / 2.0;
    let baseline = middle + 4.0;
    let weight = if contender.part == Part::Cf {
        " class=\"bold\""
    } else {
        ""
    };
    let mut text = format!(
        "<g><title>{}</title><text{weight} x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{}</text>",
        escaped(&sentence(row, contender)),
        LEFT - 10.0,
        escaped(&contender.name),
    );
    let mut put = |part: &str| text.push_str(part);
    if let Some(ratio) = &contender.ratio {
        let (one, x) = (scale.x(1.0), scale.x(ratio.times));
        let (from, wide) = (one.min(x), (one - x).abs().max(2.0));
        let top = middle - BAR / 2.0;
        match contender.part {
            Part::Floor => put(&diamond(x, middle)),
            part => {
                let class = if part == Part::Cf { "ours" } else { "peer" };
                put(&format!(
                    "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{BAR}\"/>"
                ));
            }
        }
        let (low, high) = (
            scale.x((ratio.times - ratio.spread).max(ratio.times / 10.0)),
            scale.x(ratio.times + ratio.spread),
        );
        if high - low > 3.0 {
            put(&format!(
                "<path class=\"spread\" d=\"M{low:.1} {middle:.1}H{high:.1}m0 -3v6M{low:.1} {:.1}v6\"/>",
                middle - 3.0
            ));
        }
        for at in targets(row, contender).filter_map(|target| target.at) {
            put(&mark(scale.x(at), top - 1.0));
        }
    }
    put(&format!(
        "<text{weight} x=\"{:.1}\" y=\"{baseline:.1}\">{}</text></g>",
        RIGHT + 14.0,
        escaped(&value(row, contender)),
    ));
    text
}

fn targets<'a>(row: &'a RowFigures, contender: &'a Figures) -> impl Iterator<Item = &'a Verdict> {
    row.targets
        .iter()
        .filter(|target| target.ours == contender.name)
}

/// What stands to the right of a bar.
fn value(row: &RowFigures, contender: &Figures) -> String {
    let usual = row.contenders.iter().find_map(|it| it.ratio.as_ref());
    let mut text = contender.ratio.as_ref().map_or_else(String::new, |ratio| {
        let of = match usual {
            Some(usual) if usual.to != ratio.to => format!(" {}", reference(ratio)),
            _ => String::new(),
        };
        format!("{} ×{of}, ", short(ratio.times))
    });
    write!(text, "{} {}", short(contender.figure), row.unit)
        .expect("writing to a string cannot fail");
    for target in targets(row, contender) {
        let word = match target.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => continue,
        };
        let than = if row.more_is_better { "≥" } else { "≤" };
        let at = target.at.map_or_else(String::new, short);
        write!(text, "; {than} {at} {word}").expect("writing to a string cannot fail");
    }
    text
}

/// The same for somebody who cannot see the bar.
fn sentence(row: &RowFigures, contender: &Figures) -> String {
    let part = match contender.part {
        Part::Floor => "floor",
        Part::Cf => "cf",
        Part::Peer => "peer",
    };
    let of = contender.ratio.as_ref().map(reference);
    let of = of.map_or_else(String::new, |of| format!(" (× is of {of})"));
    format!(
        "{}, {part}: {}: {}{of}",
        row.what,
        contender.name,
        value(row, contender)
    )
}

fn described(rows: &[&RowFigures]) -> String {
    let mut text =
        String::from("A bar chart of ratios on a logarithmic scale, where 1 is the floor.");
    for row in rows {
        let contenders: Vec<String> = bars(row)
            .map(|contender| format!("{} {}", contender.name, value(row, contender)))
            .collect();
        write!(text, " {}: {}.", row.what, contenders.join("; "))
            .expect("writing to a string cannot fail");
    }
    text
}

fn diamond(x: f64, y: f64) -> String {
    format!(
        "<path class=\"floor\" d=\"M{:.1} {y:.1}l5 -5l5 5l-5 5z\"/>",
        x - 5.0
    )
}

/// A triangle whose tip is a line through the bar below it.
fn mark(x: f64, y: f64) -> String {
    format!(
        "<path class=\"mark\" d=\"M{:.1} {:.1}h8l-4 5zM{x:.1} {y:.1}v{:.1}\"/>",
        x - 4.0,
        y - 3.0,
        BAR + 2.0
    )
}

/// Three digits, as people write them.
fn short(value: f64) -> String {
    let size = if value == 0.0 {
        0
    } else {
        value.abs().log10().floor() as i32
    };
    if size > 2 {
        let step = 10f64.powi(size - 2);
        return with_commas(((value / step).round() * step) as i64);
    }
    let digits = usize::try_from(2 - size).unwrap_or(0).min(4);
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn with_commas(value: i64) -> String {
    if value < 1_000 {
        return value.to_string();
    }
    format!("{},{:03}", with_commas(value / 1_000), value % 1_000)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
