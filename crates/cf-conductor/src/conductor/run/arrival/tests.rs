use std::sync::Arc;

use cf_core::{Asker, Link, LinkKind, TaskStatus, Timestamp};
use cf_github::{
    Association, CloseReason, Comment, Gone, GoneHow, Item, ItemState, Known, Read, Why,
};

use super::*;
use crate::github::{Access, GithubSource};
use crate::store::task::TaskSpec;
use crate::store::{Durability, Store};

struct Lab {
    store: Store,
    follower: Follower,
    task: TaskId,
    held: bool,
}

fn link(text: &str) -> Link {
    Link::parse(text, LinkKind::Issue, "github.com").unwrap()
}

thread_local! {
    /// When the link of this thread's test was made, in whole seconds.
    static MADE: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

/// So many seconds after the link was made, as GitHub writes times.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(MADE.get() + seconds).unwrap()
}

fn comment(id: &str, seconds: i64) -> Comment {
    Comment {
        id: id.to_owned(),
        author: Some("mona".to_owned()),
        by_bot: false,
        by_token_account: false,
        association: Association::Member,
        created_at: at(seconds),
        edited_at: None,
        minimized: false,
        body: format!("this is {id}"),
        cut: false,
    }
}

fn known(kind: LinkKind, state: ItemState, comments: Comments) -> Answer {
    let link = link("o/r#12");
    Answer::Known(Known {
        item: Arc::new(Item {
            node_id: "I_1".to_owned(),
            kind,
            repo: link.repo,
            number: link.number,
            title: "t".to_owned(),
            state,
            draft: false,
            updated_at: at(0),
        }),
        read_at: at(0),
        checked_at: at(0),
        comments,
        found: Vec::new(),
    })
}

fn said(list: Vec<Comment>, more: bool) -> Answer {
    said_but(0, list, more)
}

/// The same when so many could not be read.
fn said_but(unread: u32, list: Vec<Comment>, more: bool) -> Answer {
    let read = Read {
        list: list.into(),
        up_to: at(5),
        more,
        unread,
    };
    known(LinkKind::Issue, ItemState::Open, Comments::Read(read))
}

impl Lab {
    fn new() -> Self {
        let mut store = Store::in_memory().unwrap();
        let task = store
            .write(&Actor::Cli, |tx| {
                let task = tx.add_task(&TaskSpec {
                    title: "t".to_owned(),
                    ..TaskSpec::default()
                })?;
                tx.link(task, &link("o/r#12"))?;
                Ok(task)
            })
            .unwrap();
        let made = store.read(|reader| reader.link_rows(task)).unwrap()[0].created_at;
        MADE.set(made.as_second());
        Self {
            store,
            follower: Follower::new(GithubSource::new(&Access::default())),
            task,
            held: false,
        }
    }

    fn row(&self) -> LinkRow {
        let mut rows = self
            .store
            .read(|reader| reader.link_rows(self.task))
            .unwrap();
        rows.remove(0)
    }

    /// Stores an answer about the link as it stands, and returns what it concerns and the events.
    fn arrive(&mut self, answer: Answer) -> (Vec<TaskId>, Vec<Event>) {
        let row = self.row();
        self.arrive_for(row, answer)
    }

    fn arrive_for(&mut self, row: LinkRow, answer: Answer) -> (Vec<TaskId>, Vec<Event>) {
        let arrival = Arrival {
            host: "github.com".to_owned(),
            answers: vec![(row, answer)],
            starts: Vec::new(),
            asked_at: Timestamp::now(),
        };
        let batch = BatchId(uuid::Uuid::new_v4());
        let mut arriving = Arriving {
            follower: &self.follower,
            batch,
            held: self.held.then_some(self.task).into_iter().collect(),
            concerned: BTreeSet::new(),
            moved: Vec::new(),
            gone: Vec::new(),
            touched: BTreeSet::new(),
        };
        let ((), events) = self
            .store
            .write_as(&Actor::Batch(batch), Durability::Normal, |tx| {
                arriving.store(tx, &arrival)
            })
            .unwrap();
        let Arriving {
            concerned,
            moved,
            gone,
            ..
        } = arriving;
        self.follower.gone_said.extend(gone);
        for (pk, _) in moved {
            *self.follower.moves.entry(pk).or_default() += 1;
        }
        (concerned.into_iter().collect(), events)
    }

    /// Author, whether trusted, and whether it is news, of every comment stored.
    fn comments(&self) -> Vec<(String, bool, bool)> {
        let stored = self
            .store
            .read(|reader| reader.comments(self.task))
            .unwrap();
        stored
            .into_iter()
            .map(|comment| (comment.body, comment.trusted, comment.news))
            .collect()
    }
}

#[test]
fn a_link_that_is_gone_is_said_once_and_not_before_three_looks() {
    let mut lab = Lab::new();
    let gone = |looks| {
        Answer::Gone(Gone {
            how: GoneHow::Deleted,
            at: at(0),
            looks,
        })
    };
    for (looks, notices) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        let (_, events) = lab.arrive(gone(looks));
        let said = events
            .iter()
            .filter(|event| event.kind.known() == Some(EventType::SourceNotice))
            .count();
        assert_eq!(said, notices, "after {looks} looks");
    }
}

#[test]
fn as_long_as_a_comment_cannot_be_read_the_others_are_stored_and_all_are_asked_for_again() {
    let mut lab = Lab::new();
    lab.arrive(said_but(1, vec![comment("second", 2)], false));
    let row = lab.row();
    assert_eq!((row.comments_seen, row.comments_since), (None, None));
    let texts = |lab: &Lab| {
        lab.comments()
            .into_iter()
            .map(|(text, ..)| text)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&lab), ["this is second"]);
    lab.arrive(said(vec![comment("first", 1), comment("second", 2)], false));
    assert_eq!(texts(&lab), ["this is first", "this is second"]);
    assert_eq!(lab.row().comments_seen, Some(at(5)));
    // And the next one does not take it back.
    lab.arrive(said_but(1, vec![comment("third", 3)], false));
    assert_eq!(lab.row().comments_since, Some(at(2)));
}

#[test]
fn older_comments_are_context_and_newer_ones_are_news() {
    let mut lab = Lab::new();
    let stranger = |id, seconds| Comment {
        association: Association::Other,
        ..comment(id, seconds)
    };
    let bot = Comment {
        by_bot: true,
        ..comment("bot", 3)
    };
    let hidden = Comment {
        minimized: true,
        ..comment("hidden", 3)
    };
    let list = vec![
        comment("old", -60),
        stranger("old stranger", -50),
        comment("new", 2),
        bot,
        hidden,
        stranger("new stranger", 3),
    ];
    let (concerned, _) = lab.arrive(said(list.clone(), false));
    assert_eq!(concerned, [lab.task]);
    let kept = [
        ("this is old".to_owned(), true, false),
        ("this is new".to_owned(), true, true),
        ("this is new stranger".to_owned(), false, true),
    ];
    assert_eq!(lab.comments(), kept);
    assert_eq!(lab.row().comments_seen, Some(at(5)));
    // Whoever dies before the commit is told again, and nothing is stored twice.
    lab.arrive(said(list, false));
    assert_eq!(lab.comments(), kept);
}

#[test]
fn when_there_is_more_news_than_the_last_comments_all_of_it_is_read() {
    let mut lab = Lab::new();
    lab.arrive(said(
        vec![comment("nineteen", 1), comment("twenty", 2)],
        true,
    ));
    let row = lab.row();
    assert_eq!(row.comments_since, Some(row.created_at));
    assert_eq!(
        row.comments_seen,
        Some(Timestamp::UNIX_EPOCH),
        "asked again"
    );
    assert_eq!(lab.comments().len(), 2);
    let list = vec![
        comment("one", 1),
        comment("nineteen", 1),
        comment("twenty", 2),
    ];
    lab.arrive(said(list, false));
    assert_eq!(lab.comments().len(), 3);
    assert_eq!(lab.row().comments_since, Some(at(2)));
}

#[test]
fn where_there_was_no_comment_all_that_follow_are_asked_for() {
    let mut lab = Lab::new();
    lab.arrive(said(Vec::new(), false));
    assert_eq!(lab.row().comments_since, Some(at(5)));
}

#[test]
fn a_link_follows_its_target_and_a_circle_ends() {
    let mut lab = Lab::new();
    let there = link("o/elsewhere#3");
    let moved = |to: &Link| Answer::Moved {
        to: to.clone(),
        at: at(0),
    };
    lab.arrive(moved(&there));
    assert_eq!(lab.row().link, there);
    for n in 0..20 {
        let to = link(&format!("o/circle#{}", n % 2 + 1));
        lab.arrive(moved(&to));
    }
    assert_eq!(lab.follower.moves[&lab.row().pk], MOVES);
}

#[test]
fn a_link_that_was_removed_while_it_was_asked_about_is_no_trouble() {
    let mut lab = Lab::new();
    let row = lab.row();
    let task = lab.task;
    lab.store
        .write(&Actor::Cli, |tx| tx.unlink(task, &link("o/r#12")))
        .unwrap();
    lab.arrive_for(row, said(vec![comment("late", 1)], false));
    assert!(lab.comments().is_empty());
}

#[test]
fn a_reopening_resolves_the_question_about_the_closing() {
    for held in [false, true] {
        let mut lab = Lab::new();
        lab.held = held;
        let (task, pk) = (lab.task, lab.row().pk);
        let question = lab
            .store
            .write(&Actor::System, |tx| {
                let id = tx.ask_as(Some(task), "what now?", Asker::System, None)?;
                tx.set_link_question(pk, Some(id))?;
                Ok(id)
            })
            .unwrap();
        lab.arrive(known(
            LinkKind::Pr,
            ItemState::ClosedUnmerged { at: at(0) },
            Comments::NotAsked,
        ));
        assert_eq!(lab.row().question, Some(question));
        let (concerned, events) =
            lab.arrive(known(LinkKind::Pr, ItemState::Open, Comments::NotAsked));
        assert_eq!(concerned, [task]);
        assert_eq!(lab.row().question, None);
        assert!(
            events
                .iter()
                .all(|event| event.actor == Actor::Github("github.com".to_owned()))
        );
        let (blocker, status) = lab
            .store
            .read(|reader| Ok((reader.blocker(question)?, reader.task(task)?.status)))
            .unwrap();
        assert_eq!(blocker.status, BlockerStatus::Resolved);
        // A batch that holds the task decides by itself what follows.
        let expected = if held {
            TaskStatus::Blocked
        } else {
            TaskStatus::Ready
        };
        assert_eq!(status, expected);
    }
}

#[test]
fn what_a_person_overruled_is_pinned() {
    let mut lab = Lab::new();
    let task = lab.task;
    for to in [TaskStatus::Backlog, TaskStatus::Ready] {
        lab.store
            .write(&Actor::Cli, |tx| {
                tx.set_status(task, to, crate::store::task::Expect::Anything)
            })
            .unwrap();
    }
    let closed = |seconds| {
        let state = ItemState::Closed {
            reason: CloseReason::Completed,
            at: at(seconds),
        };
        known(LinkKind::Issue, state, Comments::NotAsked)
    };
    lab.arrive(closed(60));
    assert_eq!(lab.row().spent, None, "it was closed after that");
    lab.arrive(closed(-60));
    let spent = lab.row().spent.expect("it is pinned");
    assert_eq!(spent.closures.len(), 1);
    assert!(
        spent.closures[0].starts_with("o/r#12 completed "),
        "{spent:?}"
    );
}

#[test]
fn what_is_not_known_writes_nothing() {
    let mut lab = Lab::new();
    let (_, events) = lab.arrive(Answer::Unknown {
        why: Why::NotAsked,
        last: None,
    });
    assert!(events.is_empty());
}
