//! Which task is next: the pure state machine of a batch.
//!
//! It holds where every task of the batch stands and what it waits for; it reads no clock and touches nothing. The
//! conductor tells it what became true (a task was claimed, ended, skipped, reopened), asks it what may start, and
//! stores the rows that changed. Serial is parallel with one slot, and a retry, a requeue and a resume take the same
//! way as a first run. A change costs what it touches: a task's end looks at its dependents, never at the whole batch.

use std::collections::{BTreeSet, HashMap};

use cf_core::{Outcome, Phase, TaskId, TaskLabel, TaskStatus, Timestamp};
use cf_reconcile::{
    Dependency, DependencyState, LiveClaim, Reason, ReconciliationResult, Standing, Stored,
    WaitingDecision, decide_waiting, standing,
};

use crate::store::batch::BatchTask;

/// A task as the schedule is built from.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its row; the position is its place among the members.
    pub row: BatchTask,
    /// How it is called.
    pub label: TaskLabel,
    /// 0 is most urgent.
    pub priority: i64,
    /// What the store holds.
    pub stored: Stored,
    /// Whether somebody else works on it; of what runs here, nobody.
    pub claim: LiveClaim,
    /// What keeps it from starting although its dependencies are met.
    pub gate: Gate,
}

/// A task outside the batch that one inside depends on.
#[derive(Clone, Debug)]
pub struct Outsider {
    /// The task.
    pub task: TaskId,
    /// How it is called.
    pub label: TaskLabel,
    /// What the store holds.
    pub stored: Stored,
    /// Whether somebody works on it.
    pub claim: LiveClaim,
}

/// What keeps a queued task from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// Another batch or attempt works on it; its end is waited for, without slot or attempt.
    ClaimedElsewhere,
    /// A person works on it: held, if it stays so.
    InProgressByHand,
    /// A source is being asked about it.
    AwaitingLook,
}

/// Whether new agents may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They may.
    Open,
    /// None may; what runs ends.
    Closing,
}

/// Something to be told of besides the rows that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A dependency of this task, which runs or ran, is no longer done.
    DependencyReopened {
        /// The task that depends.
        task: TaskId,
        /// What it depends on.
        on: TaskId,
    },
}

/// A row that changed, with where it stood before.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The row as it is to be stored.
    pub row: BatchTask,
    /// How the task is called.
    pub label: TaskLabel,
    /// Where it stood when it was stored last.
    pub before: (Phase, Option<Outcome>),
    /// The finding that caused it, if one did.
    pub finding: Option<ReconciliationResult>,
    /// Why the row changed, where that is not the row's own reason.
    pub why: Option<Reason>,
}

#[derive(Clone, Debug)]
struct Node {
    row: BatchTask,
    label: TaskLabel,
    member: bool,
    priority: i64,
    stored: Stored,
    claim: LiveClaim,
    gate: Gate,
    depends_on: Vec<usize>,
    dependents: Vec<usize>,
    /// What this node means to its dependents, as they were last told.
    told: DependencyState,
    pending: u32,
    dead: u32,
    before: (Phase, Option<Outcome>),
    dirty: bool,
    finding: Option<ReconciliationResult>,
    why: Option<Reason>,
}

/// Where every task of a batch stands, and what may start.
#[derive(Clone, Debug)]
pub struct Schedule {
    nodes: Vec<Node>,
    index: HashMap<TaskId, usize>,
    slots: usize,
    mode: Mode,
    /// Queued, gate open, due: by priority, then position.
    ready: BTreeSet<(i64, usize)>,
    /// Queued, gate open, not due yet: by time.
    delayed: BTreeSet<(i64, usize)>,
    phases: [usize; Phase::ALL.len()],
    waiting_for_others: usize,
    held_under_a_claim: usize,
    by_hand: usize,
    dirty: Vec<usize>,
    /// Nodes whose meaning to their dependents may have changed.
    touched: Vec<usize>,
    /// Nodes that somebody else will finish: outside the batch, or finished in it and worked on elsewhere.
    elsewhere: BTreeSet<usize>,
    notes: Vec<Note>,
    /// Whether the batch is ending, and no claim of others on its own tasks is waited for any more.
    winding_up: bool,
    /// Everything has its outcome and keeps it, whatever its end makes of what others waited for.
    wound_up: bool,
    first_bad: Option<String>,
    /// How many nodes were looked at so far; tests bound it.
    #[cfg(test)]
    looks: usize,
}

impl Schedule {
    /// Builds the schedule. Members come in the order of their positions; edges are `(task, depends on)`, and those
    /// whose task is not a member, or whose target is unknown, are ignored.
    ///
    /// Call [`Schedule::settle`] afterwards to let waiting members find their place.
    pub fn new(
        slots: usize,
        members: Vec<Member>,
        outsiders: Vec<Outsider>,
        edges: impl IntoIterator<Item = (TaskId, TaskId)>,
    ) -> Self {
        let mut schedule = Self {
            nodes: Vec::with_capacity(members.len() + outsiders.len()),
            index: HashMap::with_capacity(members.len() + outsiders.len()),
            slots: slots.max(1),
            mode: Mode::Open,
            ready: BTreeSet::new(),
            delayed: BTreeSet::new(),
            phases: [0; Phase::ALL.len()],
            waiting_for_others: 0,
            held_under_a_claim: 0,
            by_hand: 0,
            dirty: Vec::new(),
            touched: Vec::new(),
            elsewhere: BTreeSet::new(),
            notes: Vec::new(),
            winding_up: false,
            wound_up: false,
            first_bad: None,
            #[cfg(test)]
            looks: 0,
        };
        for member in members {
            schedule.add_member(member);
        }
        for outsider in outsiders {
            schedule.add_outsider(outsider);
        }
        for (task, on) in edges {
            if let (Some(&at), Some(&on)) = (schedule.index.get(&task), schedule.index.get(&on))
                && schedule.nodes[at].member
            {
                schedule.nodes[at].depends_on.push(on);
                schedule.nodes[on].dependents.push(at);
            }
        }
        for at in 0..schedule.nodes.len() {
            schedule.nodes[at].told = schedule.meaning(at);
            schedule.note_elsewhere(at);
        }
        for at in 0..schedule.nodes.len() {
            schedule.count_dependencies(at);
            schedule.replace(at);
        }
        schedule
    }

    /// Adds a member to a batch that runs; its dependencies are set separately.
    pub fn add_member(&mut self, member: Member) {
        let before = (member.row.phase, member.row.outcome);
        self.push(Node {
            row: member.row,
            label: member.label,
            member: true,
            priority: member.priority,
            stored: member.stored,
            claim: member.claim,
            gate: member.gate,
            depends_on: Vec::new(),
            dependents: Vec::new(),
            told: DependencyState::Pending,
            pending: 0,
            dead: 0,
            before,
            dirty: false,
            finding: None,
            why: None,
        });
    }

    /// Adds a task outside the batch that a member depends on.
    pub fn add_outsider(&mut self, outsider: Outsider) {
        if self.index.contains_key(&outsider.task) {
            return;
        }
        self.push(Node {
            row: blank_row(outsider.task),
            label: outsider.label,
            member: false,
            priority: 0,
            stored: outsider.stored,
            claim: outsider.claim,
            gate: Gate::Open,
            depends_on: Vec::new(),
            dependents: Vec::new(),
            told: DependencyState::Pending,
            pending: 0,
            dead: 0,
            before: (Phase::Waiting, None),
            dirty: false,
            finding: None,
            why: None,
        });
        let at = self.nodes.len() - 1;
        self.nodes[at].told = self.meaning(at);
        self.note_elsewhere(at);
    }

    fn push(&mut self, node: Node) {
        let at = self.nodes.len();
        self.index.insert(node.row.task, at);
        if node.member {
            self.phases[node.row.phase as usize] += 1;
            self.waiting_for_others += usize::from(waits_for_others(&node));
            self.held_under_a_claim += usize::from(is_held_under_a_claim(&node));
            self.by_hand += usize::from(waits_for_a_person(&node));
        }
        self.nodes.push(node);
    }

    /// Replaces what a member depends on. Unknown targets are ignored: add them first.
    pub fn set_dependencies(&mut self, task: TaskId, on: &[TaskId], now: Timestamp) {
        let Some(&at) = self.index.get(&task) else {
            return;
        };
        for old in std::mem::take(&mut self.nodes[at].depends_on) {
            self.nodes[old]
                .dependents
                .retain(|dependent| *dependent != at);
        }
        for on in on {
            if let Some(&on) = self.index.get(on) {
                self.nodes[at].depends_on.push(on);
                self.nodes[on].dependents.push(at);
            }
        }
        self.count_dependencies(at);
        self.reconsider_at(at, now);
    }

    fn count_dependencies(&mut self, at: usize) {
        let (mut pending, mut dead) = (0, 0);
        for &on in &self.nodes[at].depends_on {
            match self.nodes[on].told {
                DependencyState::Met => {}
                DependencyState::Pending => pending += 1,
                DependencyState::Dead { .. } => dead += 1,
            }
        }
        self.nodes[at].pending = pending;
        self.nodes[at].dead = dead;
    }

    /// Whether the task is known, as a member or as a dependency from outside.
    pub fn knows(&self, task: TaskId) -> bool {
        self.index.contains_key(&task)
    }

    /// Where a member stands.
    pub fn row(&self, task: TaskId) -> Option<&BatchTask> {
        self.member(task).map(|at| &self.nodes[at].row)
    }

    /// How a task is called.
    pub fn label(&self, task: TaskId) -> Option<&TaskLabel> {
        self.index.get(&task).map(|&at| &self.nodes[at].label)
    }

    /// The members, by position.
    pub fn members(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.nodes
            .iter()
            .filter(|node| node.member)
            .map(|node| node.row.task)
    }

    /// The tasks that the batch must hear about because another owner's claim on them is waited for, or decides over
    /// what is held here.
    pub fn waited_for(&self) -> impl Iterator<Item = TaskId> + '_ {
        let own = self
            .nodes
            .iter()
            .filter(|node| waits_for_others(node) || is_held_under_a_claim(node));
        let others = self
            .elsewhere
            .iter()
            .map(|&at| &self.nodes[at])
            .filter(|node| !node.dependents.is_empty());
        own.chain(others).map(|node| node.row.task)
    }

    /// Whether there are any, without walking over the members.
    pub fn waits_for_claims(&self) -> bool {
        self.waiting_for_others > 0 || self.held_under_a_claim > 0 || !self.elsewhere.is_empty()
    }

    fn member(&self, task: TaskId) -> Option<usize> {
        self.index
            .get(&task)
            .copied()
            .filter(|&at| self.nodes[at].member)
    }

    /// How many members are in a phase.
    pub const fn count(&self, phase: Phase) -> usize {
        self.phases[phase as usize]
    }

    /// How many agents run or are being stopped. A slot is free when the end of its agent is verified.
    pub const fn busy(&self) -> usize {
        self.count(Phase::Running) + self.count(Phase::Stopping)
    }

    /// How many agents run at most.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Whether new agents may start.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The next task to start, if there is one and a slot for it. The task stays queued until
    /// [`Schedule::started`], or until something else becomes of it.
    pub fn next(&mut self, now: Timestamp) -> Option<TaskId> {
        if self.mode == Mode::Closing || self.busy() >= self.slots {
            return None;
        }
        self.wake_delayed(now);
        self.ready.first().map(|&(_, at)| self.nodes[at].row.task)
    }

    /// The tasks that come next, at most so many, without regard to slots. For those who prepare.
    pub fn upcoming(&self, count: usize) -> impl Iterator<Item = TaskId> + '_ {
        self.ready
            .iter()
            .take(count)
            .map(|&(_, at)| self.nodes[at].row.task)
    }

    /// What orders the members: priority, then position.
    pub fn turn_of(&self, task: TaskId) -> (i64, usize) {
        self.member(task)
            .map_or((i64::MAX, usize::MAX), |at| (self.nodes[at].priority, at))
    }

    fn wake_delayed(&mut self, now: Timestamp) {
        while let Some(&(due, at)) = self.delayed.first() {
            if due > now.as_millisecond() {
                break;
            }
            self.delayed.pop_first();
            self.ready.insert((self.nodes[at].priority, at));
        }
    }

    /// When the next retry is due, if nothing else is.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.delayed
            .first()
            .and_then(|&(due, _)| Timestamp::from_millisecond(due).ok())
    }

    /// Whether a person works on a queued task: it counts as held.
    pub fn has_work_in_progress_by_hand(&self) -> bool {
        self.by_hand > 0
    }

    /// Whether nothing runs and nothing can start any more: what is left waits for people, or for nobody.
    pub fn is_idle(&self) -> bool {
        if self.busy() > 0 {
            return false;
        }
        self.mode == Mode::Closing
            || (self.ready.is_empty()
                && self.delayed.is_empty()
                && self.waiting_for_others == 0
                && !self.waits_elsewhere())
    }

    /// Whether a waiting member waits for a task that somebody else works on.
    fn waits_elsewhere(&self) -> bool {
        self.elsewhere.iter().any(|&at| {
            self.nodes[at]
                .dependents
                .iter()
                .any(|&d| self.nodes[d].row.phase == Phase::Waiting)
        })
    }

    /// Whether what a node means to its dependents is for somebody else to change.
    fn note_elsewhere(&mut self, at: usize) {
        let node = &self.nodes[at];
        let others = !node.member || node.row.phase == Phase::Finished;
        if others && node.told == DependencyState::Pending {
            self.elsewhere.insert(at);
        } else {
            self.elsewhere.remove(&at);
        }
    }

    // ---- what became true -------------------------------------------------------------------------------------

    /// The task was claimed and its agent may start.
    pub fn started(&mut self, task: TaskId, now: Timestamp) {
        self.change(task, |row| {
            row.phase = Phase::Running;
            row.outcome = None;
            row.reason = None;
            row.attempts += 1;
            row.not_before = None;
            row.started_at.get_or_insert(now);
        });
    }

    /// The task's agent is told to end.
    pub fn stopping(
        &mut self,
        task: TaskId,
        reason: &Reason,
        finding: Option<ReconciliationResult>,
    ) {
        self.change_with(task, finding, Some(reason.clone()), |row| {
            row.phase = Phase::Stopping;
            row.reason = Some(reason.to_string());
        });
    }

    /// The task goes back into the queue: requeued, put back, or never started. Where it lands depends on its
    /// dependencies.
    pub fn enqueue(
        &mut self,
        task: TaskId,
        why: Option<Reason>,
        finding: Option<ReconciliationResult>,
        now: Timestamp,
    ) {
        let Some(at) = self.member(task) else { return };
        self.set_gate(task, Gate::Open);
        self.change_with(task, finding, why, |row| {
            row.phase = Phase::Waiting;
            row.outcome = None;
            row.reason = None;
            row.not_before = None;
            row.ended_at = None;
        });
        if self.mode == Mode::Open {
            self.decide_waiting(at, now);
        }
    }

    /// An attempt failed by itself, and another one is due at that time.
    pub fn retry(&mut self, task: TaskId, due: Timestamp, why: Reason) {
        self.change_with(task, None, Some(why), |row| {
            row.phase = Phase::Queued;
            row.failures += 1;
            row.not_before = Some(due);
        });
    }

    /// The task has an outcome, and has had it since `at`.
    pub fn finish(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        reason: &Reason,
        at: Timestamp,
        finding: Option<ReconciliationResult>,
    ) {
        self.forget_causes(task);
        self.change_with(task, finding, None, |row| {
            row.phase = Phase::Finished;
            row.outcome = Some(outcome);
            row.reason = Some(reason.to_string());
            row.not_before = None;
            // One that was taken over may have ended before this batch had it.
            row.ended_at = Some(row.started_at.map_or(at, |started| started.max(at)));
        });
        if self.first_bad.is_none()
            && let Some(at) = self.member(task)
            && is_bad_by_itself(&self.nodes[at].row)
        {
            self.first_bad = Some(self.nodes[at].label.to_string());
        }
    }

    /// What led here before, in the same turn, is not what this change is for.
    fn forget_causes(&mut self, task: TaskId) {
        if let Some(at) = self.member(task) {
            self.nodes[at].finding = None;
            self.nodes[at].why = None;
        }
    }

    /// The first task that became bad by itself, by its label.
    pub fn first_bad(&self) -> Option<String> {
        self.first_bad.clone()
    }

    /// The task is held until somebody answers or unblocks it.
    pub fn hold(&mut self, task: TaskId, reason: &Reason, finding: Option<ReconciliationResult>) {
        self.forget_causes(task);
        self.change_with(task, finding, None, |row| {
            row.phase = Phase::Held;
            row.outcome = None;
            row.reason = Some(reason.to_string());
            row.not_before = None;
        });
    }

    /// The attempts that failed before do not count any more: a person wants the task run afresh.
    pub fn forget_failures(&mut self, task: TaskId) {
        self.change(task, |row| row.failures = 0);
    }

    /// The attempt that was counted never started; the next try is due then.
    pub fn never_started(&mut self, task: TaskId, due: Timestamp) {
        self.change(task, |row| {
            row.attempts = row.attempts.saturating_sub(1);
            if row.phase == Phase::Queued {
                row.not_before = Some(due);
            }
        });
    }

    /// Notes the event under which a hold or an outcome was stored.
    pub fn stored_under(&mut self, task: TaskId, seq: u64) {
        if let Some(at) = self.member(task) {
            self.nodes[at].row.since_seq = seq;
        }
    }

    /// The store's word about a task changed, inside or outside the batch.
    pub fn saw(&mut self, task: TaskId, stored: Stored, claim: LiveClaim) {
        let Some(&at) = self.index.get(&task) else {
            return;
        };
        if self.nodes[at].stored != stored || self.nodes[at].claim != claim {
            self.held_under_a_claim -= usize::from(is_held_under_a_claim(&self.nodes[at]));
            self.nodes[at].stored = stored;
            self.nodes[at].claim = claim;
            self.held_under_a_claim += usize::from(is_held_under_a_claim(&self.nodes[at]));
            self.touched.push(at);
        }
    }

    /// What the schedule believes that the store holds.
    pub fn believed_stored(&self, task: TaskId) -> Option<Stored> {
        self.index.get(&task).map(|&at| self.nodes[at].stored)
    }

    /// Something keeps a queued task from starting, or does no longer.
    pub fn set_gate(&mut self, task: TaskId, gate: Gate) {
        let Some(at) = self.member(task) else { return };
        if self.nodes[at].gate == gate {
            return;
        }
        self.unplace(at);
        self.waiting_for_others -= usize::from(waits_for_others(&self.nodes[at]));
        self.by_hand -= usize::from(waits_for_a_person(&self.nodes[at]));
        self.nodes[at].gate = gate;
        self.waiting_for_others += usize::from(waits_for_others(&self.nodes[at]));
        self.by_hand += usize::from(waits_for_a_person(&self.nodes[at]));
        self.replace(at);
    }

    /// What keeps a queued task from starting.
    pub fn gate(&self, task: TaskId) -> Gate {
        self.member(task)
            .map_or(Gate::Open, |at| self.nodes[at].gate)
    }

    /// The priority of a task changed.
    pub fn set_priority(&mut self, task: TaskId, priority: i64) {
        let Some(at) = self.member(task) else { return };
        self.unplace(at);
        self.nodes[at].priority = priority;
        self.replace(at);
    }

    /// From now on nothing starts.
    pub const fn close(&mut self) {
        self.mode = Mode::Closing;
    }

    /// Gives an outcome to everything that has none, at the end of the batch: what is held is BLOCKED and what waits
    /// for it is skipped. When the batch was closed instead, `cut` is the reason for what did not get its turn.
    pub fn wind_up(&mut self, cut: &Reason, now: Timestamp) {
        let closing = self.mode == Mode::Closing;
        self.winding_up = true;
        let open: Vec<TaskId> = self
            .nodes
            .iter()
            .filter(|n| n.member && n.row.phase != Phase::Finished)
            .map(|n| n.row.task)
            .collect();
        for &task in &open {
            let at = self.index[&task];
            let held = self.nodes[at].row.phase == Phase::Held;
            let by_hand = self.nodes[at].row.phase == Phase::Queued
                && self.nodes[at].gate == Gate::InProgressByHand;
            if held {
                let reason = self.nodes[at]
                    .row
                    .reason
                    .as_deref()
                    .map_or(Reason::AnswerAwaited, Reason::from);
                self.finish(task, Outcome::Blocked, &reason, now, None);
            } else if by_hand {
                self.finish(task, Outcome::Blocked, &Reason::InProgressByHand, now, None);
            } else if closing {
                self.finish(task, Outcome::Cancelled, cut, now, None);
            }
        }
        if closing {
            return;
        }
        self.settle(now);
        // What is left waits for a task whose work is done and of which something is still alive: it is not met, and
        // nobody in this batch is going to change that.
        for &task in &open {
            let node = &self.nodes[self.index[&task]];
            if node.row.phase == Phase::Finished {
                continue;
            }
            let alive = |on: &&usize| self.nodes[**on].claim == LiveClaim::Some;
            let on = node
                .depends_on
                .iter()
                .find(alive)
                .or(node.depends_on.first());
            let reason = on.map_or(Reason::ClaimedElsewhere, |on| Reason::Dependency {
                key: self.nodes[*on].label.to_string(),
                cause: cf_reconcile::DependencyCause::NotDone,
            });
            self.finish(task, Outcome::Skipped, &reason, now, None);
        }
        self.wound_up = true;
    }

    /// Whether everything that became true has reached everything that waits for it.
    pub fn is_settled(&self) -> bool {
        self.touched.is_empty() && self.dirty.is_empty()
    }

    /// Lets what became true reach everything that waits for it: dependents that may start, that never will, or that
    /// wait again.
    pub fn settle(&mut self, now: Timestamp) {
        while let Some(at) = self.touched.pop() {
            let meaning = self.meaning(at);
            if meaning == self.nodes[at].told {
                self.note_elsewhere(at);
                continue;
            }
            let before = std::mem::replace(&mut self.nodes[at].told, meaning.clone());
            self.note_elsewhere(at);
            for dependent in self.nodes[at].dependents.clone() {
                let node = &mut self.nodes[dependent];
                match before {
                    DependencyState::Met => {}
                    DependencyState::Pending => node.pending -= 1,
                    DependencyState::Dead { .. } => node.dead -= 1,
                }
                match meaning {
                    DependencyState::Met => {}
                    DependencyState::Pending => node.pending += 1,
                    DependencyState::Dead { .. } => node.dead += 1,
                }
                if before == DependencyState::Met && node.row.attempts > 0 {
                    let (task, on) = (node.row.task, self.nodes[at].row.task);
                    self.notes.push(Note::DependencyReopened { task, on });
                }
                self.reconsider_at(dependent, now);
            }
        }
    }

    /// Looks at every waiting or queued member once. For a schedule that was just built.
    pub fn settle_all(&mut self, now: Timestamp) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].member {
                self.reconsider_at(at, now);
            }
        }
        self.settle(now);
    }

    fn reconsider_at(&mut self, at: usize, now: Timestamp) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        if self.mode == Mode::Closing || self.wound_up {
            return;
        }
        let node = &self.nodes[at];
        match node.row.phase {
            Phase::Waiting => self.decide_waiting(at, now),
            // One that ran is left: its dependencies were met when it began.
            Phase::Queued if node.row.attempts == 0 && (node.pending > 0 || node.dead > 0) => {
                self.decide_waiting(at, now);
            }
            Phase::Finished if node.dead == 0 && was_skipped_for_a_dependency(&node.row) => {
                let task = node.row.task;
                self.change(task, |row| {
                    row.phase = Phase::Waiting;
                    row.outcome = None;
                    row.reason = None;
                    row.ended_at = None;
                });
                self.decide_waiting(at, now);
            }
            Phase::Queued | Phase::Running | Phase::Stopping | Phase::Held | Phase::Finished => {}
        }
    }

    fn decide_waiting(&mut self, at: usize, now: Timestamp) {
        let node = &self.nodes[at];
        let task = node.row.task;
        if node.dead > 0 {
            #[cfg(test)]
            {
                self.looks += node.depends_on.len();
            }
            let decision = decide_waiting(node.depends_on.iter().map(|&on| &self.nodes[on].told));
            if let WaitingDecision::Skip(reason) = decision {
                self.finish(task, Outcome::Skipped, &reason, now, None);
            }
            return;
        }
        let phase = if node.pending > 0 {
            Phase::Waiting
        } else {
            Phase::Queued
        };
        if node.row.phase != phase {
            self.change(task, |row| row.phase = phase);
        }
    }

    /// What a node means to its dependents now.
    fn meaning(&self, at: usize) -> DependencyState {
        let node = &self.nodes[at];
        let label = node.label.as_str();
        if !node.member {
            return Dependency::Outside {
                stored: node.stored,
                claim: node.claim,
            }
            .state(label);
        }
        match node.row.outcome {
            None => Dependency::Unfinished.state(label),
            Some(outcome) => {
                let reason = Reason::from(node.row.reason.as_deref().unwrap_or_default());
                Dependency::Finished {
                    outcome,
                    reason: &reason,
                    stored: node.stored,
                    claim: if self.winding_up {
                        LiveClaim::None
                    } else {
                        node.claim
                    },
                }
                .state(label)
            }
        }
    }

    // ---- keeping the sets true --------------------------------------------------------------------------------

    fn change(&mut self, task: TaskId, edit: impl FnOnce(&mut BatchTask)) {
        self.change_with(task, None, None, edit);
    }

    fn change_with(
        &mut self,
        task: TaskId,
        finding: Option<ReconciliationResult>,
        why: Option<Reason>,
        edit: impl FnOnce(&mut BatchTask),
    ) {
        let Some(at) = self.member(task) else { return };
        self.unplace(at);
        self.phases[self.nodes[at].row.phase as usize] -= 1;
        self.waiting_for_others -= usize::from(waits_for_others(&self.nodes[at]));
        self.held_under_a_claim -= usize::from(is_held_under_a_claim(&self.nodes[at]));
        self.by_hand -= usize::from(waits_for_a_person(&self.nodes[at]));
        let node = &mut self.nodes[at];
        edit(&mut node.row);
        if node.row.phase != Phase::Finished {
            node.row.outcome = None;
        }
        if node.row.phase != Phase::Queued {
            node.gate = Gate::Open;
        }
        if finding.is_some() {
            node.finding = finding;
        }
        if why.is_some() {
            node.why = why;
        }
        if !node.dirty {
            node.dirty = true;
            self.dirty.push(at);
        }
        self.phases[self.nodes[at].row.phase as usize] += 1;
        self.waiting_for_others += usize::from(waits_for_others(&self.nodes[at]));
        self.held_under_a_claim += usize::from(is_held_under_a_claim(&self.nodes[at]));
        self.by_hand += usize::from(waits_for_a_person(&self.nodes[at]));
        self.replace(at);
        self.touched.push(at);
    }

    fn unplace(&mut self, at: usize) {
        let node = &self.nodes[at];
        self.ready.remove(&(node.priority, at));
        if let Some(due) = node.row.not_before {
            self.delayed.remove(&(due.as_millisecond(), at));
        }
    }

    fn replace(&mut self, at: usize) {
        let node = &self.nodes[at];
        if !node.member || node.row.phase != Phase::Queued || node.gate != Gate::Open {
            return;
        }
        match node.row.not_before {
            None => self.ready.insert((node.priority, at)),
            Some(due) => self.delayed.insert((due.as_millisecond(), at)),
        };
    }

    // ---- what is to be stored ---------------------------------------------------------------------------------

    /// Takes the rows that changed since the last call, in the order in which they did.
    pub fn take_changed(&mut self) -> Vec<Changed> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty
            .into_iter()
            .map(|at| {
                let node = &mut self.nodes[at];
                node.dirty = false;
                let before =
                    std::mem::replace(&mut node.before, (node.row.phase, node.row.outcome));
                Changed {
                    row: node.row.clone(),
                    label: node.label.clone(),
                    before,
                    finding: node.finding.take(),
                    why: node.why.take(),
                }
            })
            .collect()
    }

    /// Whether something happened to a task, since it was stored last, that its next change would hide.
    pub fn has_a_story(&self, task: TaskId) -> bool {
        self.member(task).is_some_and(|at| {
            let node = &self.nodes[at];
            let came_back = matches!(
                node.before.0,
                Phase::Finished | Phase::Held | Phase::Running | Phase::Stopping
            );
            node.dirty && (came_back || node.finding.is_some() || node.why.is_some())
        })
    }

    /// Takes what else is to be told.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Where the members that have an outcome stand.
    pub fn standings(&self) -> cf_reconcile::Counts {
        let mut counts = cf_reconcile::Counts::default();
        for node in self.nodes.iter().filter(|node| node.member) {
            if let Some(outcome) = node.row.outcome {
                counts.add(standing(
                    outcome,
                    &Reason::from(node.row.reason.as_deref().unwrap_or_default()),
                ));
            }
        }
        counts
    }
}

/// Whether a task's own end is one that makes the batch stop when it is told to stop on failures: it counts as bad, and
/// not only because of a dependency.
pub(crate) fn is_bad_by_itself(row: &BatchTask) -> bool {
    let reason = Reason::from(row.reason.as_deref().unwrap_or_default());
    row.outcome
        .is_some_and(|outcome| standing(outcome, &reason) == Standing::Bad)
        && !matches!(reason, Reason::Dependency { .. })
}

/// Whether a task's outcome is a skip for a dependency.
pub fn was_skipped_for_a_dependency(row: &BatchTask) -> bool {
    row.outcome == Some(Outcome::Skipped)
        && matches!(
            Reason::from(row.reason.as_deref().unwrap_or_default()),
            Reason::Dependency { .. }
        )
}

/// Decides whether a resume that is not forced takes up a task that stands so in its batch. What the store holds of the
/// task is asked for only where it matters.
///
/// # Errors
///
/// Those of `stored`.
pub(crate) fn resume_takes_up<E>(
    row: &BatchTask,
    stored: impl FnOnce() -> Result<Option<Stored>, E>,
) -> Result<bool, E> {
    Ok(match row.outcome {
        None | Some(Outcome::Failed | Outcome::Blocked | Outcome::Cancelled) => true,
        Some(Outcome::Completed) => false,
        Some(Outcome::Skipped) => {
            was_skipped_for_a_dependency(row)
                || stored()? == Some(Stored::Status(TaskStatus::Ready))
        }
    })
}

const fn waits_for_a_person(node: &Node) -> bool {
    matches!(node.row.phase, Phase::Queued) && matches!(node.gate, Gate::InProgressByHand)
}

const fn waits_for_others(node: &Node) -> bool {
    node.member
        && matches!(node.row.phase, Phase::Queued)
        && matches!(node.gate, Gate::ClaimedElsewhere | Gate::AwaitingLook)
}

/// Whether somebody else's claim, which came before this batch saw the answer, decides over a held member.
const fn is_held_under_a_claim(node: &Node) -> bool {
    node.member && matches!(node.row.phase, Phase::Held) && matches!(node.claim, LiveClaim::Some)
}

fn blank_row(task: TaskId) -> BatchTask {
    BatchTask {
        task,
        position: 0,
        phase: Phase::Waiting,
        outcome: None,
        reason: None,
        attempts: 0,
        failures: 0,
        not_before: None,
        since_seq: 0,
        take_up_seq: 0,
        started_at: None,
        ended_at: None,
    }
}

/// Whether a status means that the work is done.
pub const fn is_done(stored: Stored) -> bool {
    matches!(
        stored,
        Stored::Status(TaskStatus::Done | TaskStatus::Merged)
    )
}

#[cfg(test)]
mod tests;
