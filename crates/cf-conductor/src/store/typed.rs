//! Text that people type, which is refused when it could never be used.
//!
//! Nothing else looks at what a text holds: output for people is cleaned where it is printed. What comes from trackers
//! is not typed here, and is made usable where it is read.

use super::task::{TaskEdit, TaskSpec};
use super::{Result, StoreError};

/// Refuses a text with a NUL character: it would be cut, or refused, wherever it becomes an argument or a variable of a
/// process, and no plan may hold it.
///
/// # Errors
///
/// It has one.
pub(super) fn refuse_nul(what: &str, text: &str) -> Result<()> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(StoreError::Refused {
        what: format!("the {what} has a NUL character in it"),
        hint: Some("take it out; is it a text, and is it UTF-8?".to_owned()),
    })
}

impl TaskSpec {
    /// Refuses a text that could never be used.
    pub(super) fn refuse_nul(&self) -> Result<()> {
        let some = |what, text: &Option<String>| refuse_nul(what, text.as_deref().unwrap_or(""));
        refuse_nul("title", &self.title)?;
        refuse_nul("description", &self.description)?;
        some("script", &self.run)?;
        some("verification", &self.verify)?;
        some("engine", &self.engine)?;
        some("model", &self.model)?;
        self.env.iter().try_for_each(|(name, value)| {
            refuse_nul("name of a variable", name)?;
            refuse_nul(&format!("variable {name}"), value)
        })
    }
}

impl TaskEdit {
    /// Refuses a new text that could never be used. What was stored before is no reason to refuse another field.
    pub(super) fn refuse_nul(&self) -> Result<()> {
        TaskSpec {
            title: self.title.clone().unwrap_or_default(),
            description: self.description.clone().unwrap_or_default(),
            run: self.run.clone().flatten(),
            verify: self.verify.clone().flatten(),
            engine: self.engine.clone().flatten(),
            model: self.model.clone().flatten(),
            env: self.env.clone().unwrap_or_default(),
            ..TaskSpec::default()
        }
        .refuse_nul()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cf_core::Actor;
    use test_case::test_case;

    use super::*;
    use crate::store::Store;

    const ODD: &str = "a\0b";

    fn spec() -> TaskSpec {
        TaskSpec {
            title: "t".to_owned(),
            ..TaskSpec::default()
        }
    }

    #[test_case(|spec| spec.title = ODD.into(), "title")]
    #[test_case(|spec| spec.description = ODD.into(), "description")]
    #[test_case(|spec| spec.run = Some(ODD.into()), "script")]
    #[test_case(|spec| spec.verify = Some(ODD.into()), "verification")]
    #[test_case(|spec| spec.engine = Some(ODD.into()), "engine")]
    #[test_case(|spec| spec.model = Some(ODD.into()), "model")]
    #[test_case(|spec| spec.env = BTreeMap::from([("A".into(), ODD.into())]), "variable A")]
    fn a_task_with_a_nul_is_refused_when_it_is_added_and_when_it_is_changed(
        change: fn(&mut TaskSpec),
        what: &str,
    ) {
        let mut store = Store::in_memory().unwrap();
        let mut odd = spec();
        change(&mut odd);
        let said = format!("the {what} has a NUL character in it");
        let added = store.write(&Actor::Cli, |tx| tx.add_task(&odd));
        assert!(added.unwrap_err().to_string().contains(&said));
        let id = store.write(&Actor::Cli, |tx| tx.add_task(&spec())).unwrap();
        let edit = TaskEdit {
            title: Some(odd.title),
            description: Some(odd.description),
            run: Some(odd.run),
            verify: Some(odd.verify),
            engine: Some(odd.engine),
            model: Some(odd.model),
            env: Some(odd.env),
            ..TaskEdit::default()
        };
        let edited = store.write(&Actor::Cli, |tx| tx.edit_task(id, &edit));
        assert!(edited.unwrap_err().to_string().contains(&said));
    }

    #[test]
    fn a_question_and_an_answer_with_a_nul_are_refused() {
        let mut store = Store::in_memory().unwrap();
        let asked = store.write(&Actor::Cli, |tx| tx.ask(None, ODD));
        assert!(asked.unwrap_err().to_string().contains("the question has"));
        let id = store.write(&Actor::Cli, |tx| tx.ask(None, "why?")).unwrap();
        let answered = store.write(&Actor::Cli, |tx| tx.answer(id, ODD));
        assert!(answered.unwrap_err().to_string().contains("the answer has"));
    }
}
