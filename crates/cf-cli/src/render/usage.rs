//! What agents used, as words: `12.3k tokens, $0.42`.

/// Tokens, and cost in millionths of a dollar, as far as they are known; nothing when neither is.
pub(crate) fn words(tokens: Option<u64>, cost_micro_usd: Option<u64>) -> Option<String> {
    // Programs that know no price report 0.
    let cost = cost_micro_usd.filter(|cost| *cost > 0).map(dollars);
    match (tokens.map(count), cost) {
        (Some(tokens), Some(cost)) => Some(format!("{tokens} tokens, {cost}")),
        (Some(tokens), None) => Some(format!("{tokens} tokens")),
        (None, cost) => cost,
    }
}

fn count(tokens: u64) -> String {
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

/// To the cent, rounded; below that to the hundredth of a cent.
fn dollars(micro: u64) -> String {
    if micro < 10_000 {
        return format!("$0.{:04}", micro / 100);
    }
    let cents = micro.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(None, None => None; "nothing is known")]
    #[test_case(Some(9_999), None => Some("9999 tokens".to_owned()); "few tokens")]
    #[test_case(Some(12_345), Some(421_900) => Some("12.3k tokens, $0.42".to_owned()); "tokens and cost")]
    #[test_case(Some(2_150_000), Some(0) => Some("2.1M tokens".to_owned()); "no price")]
    #[test_case(None, Some(1_999_999) => Some("$2.00".to_owned()); "rounded")]
    #[test_case(None, Some(4_200) => Some("$0.0042".to_owned()); "less than a cent")]
    fn in_words(tokens: Option<u64>, cost: Option<u64>) -> Option<String> {
        words(tokens, cost)
    }
}
