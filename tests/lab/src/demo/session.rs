//! One run of the demo's traffic, observed.

use std::time::{Duration, Instant};

use pendulum_model::segment::{Direction, PerDirection};

use super::alerts::Fired;
use super::display::Display;
use super::error::DemoError;
use super::plan::DemoPlan;
use super::reading::Reading;
use super::view::View;
use crate::agent::Agent;
use crate::experiment::Record;
use crate::interrupt::Interrupt;
use crate::lab::Lab;
use crate::prometheus::Prometheus;
use crate::topology::Role;
use crate::traffic::{Prepared, Transfer};
use crate::truth::{QueueReading, read_sockets};

/// How often the queues are read.
const TICK: Duration = Duration::from_millis(100);
/// Every how many ticks sockets and agent are read as well, and the display is drawn.
const TICKS_PER_READING: u32 = 5;
/// So many readings may miss the agent's answer before it counts as failed: the machine may be busy.
const PATIENCE: u32 = 3;

/// Everything a run needs.
pub(super) struct Session<'a> {
    pub(super) lab: &'a Lab,
    pub(super) agent: &'a mut Agent,
    /// Asked for alerts, if there is one.
    pub(super) prometheus: Option<&'a Prometheus>,
    pub(super) plan: DemoPlan,
    pub(super) interrupt: &'a Interrupt,
    pub(super) url: String,
}

/// What a run has shown.
#[derive(Debug)]
pub(super) struct Observed {
    /// By the kernel.
    pub(super) record: Record,
    /// By the agent.
    pub(super) readings: Vec<Reading>,
    /// By Prometheus.
    pub(super) fired: Vec<Fired>,
    /// Its last moment.
    pub(super) view: View,
}

impl Session<'_> {
    /// Runs all stretches once and shows them. The transfers are ended with it.
    ///
    /// # Errors
    /// If the traffic or the agent fails, the output is gone, or the user stops it.
    pub(super) fn run(&mut self, display: &mut Display) -> Result<Observed, DemoError> {
        let mut waiting = Vec::new();
        for (at, spec) in self.plan.transfers() {
            waiting.push((at, Some(Prepared::new(self.lab, spec)?)));
        }
        let mut running = Vec::new();
        let mut observed = Observed {
            record: Record::default(),
            readings: Vec::new(),
            fired: Vec::new(),
            view: self.first_view(),
        };
        let start = Instant::now();
        let mut misses = 0;
        display.begin(&self.url)?;
        for tick in 0.. {
            let now = start.elapsed();
            for (_, prepared) in waiting.iter_mut().filter(|(at, _)| *at <= now) {
                if let Some(prepared) = prepared.take() {
                    running.push((now, prepared.start()?));
                }
            }
            self.read_queues(start, &mut observed)?;
            if tick % TICKS_PER_READING == 0 {
                check(&mut running, now)?;
                self.read_sockets(start, &mut observed)?;
                self.ask_agent(start, &mut observed, &mut misses)?;
                self.ask_prometheus(start, &mut observed)?;
                observed.view.update(start.elapsed(), &observed.readings);
                display.show(&observed.view)?;
            }
            if now >= self.plan.total() {
                break;
            }
            self.interrupt.sleep_until(start + TICK * (tick + 1))?;
        }
        display.end();
        Ok(observed)
    }

    fn first_view(&self) -> View {
        View {
            plan: self.plan,
            elapsed: Duration::ZERO,
            link: *self.lab.spec(),
            reading: Reading::default(),
            backlog: PerDirection::default(),
            history: PerDirection::default(),
            alerts: self.prometheus.map(|_| Vec::new()),
        }
    }

    fn read_queues(&self, start: Instant, observed: &mut Observed) -> Result<(), DemoError> {
        let read = |direction| {
            let (host, device) = self.lab.queue(direction);
            QueueReading::take(&host, device)
        };
        let queue = PerDirection { up: read(Direction::Up)?, down: read(Direction::Down)? };
        observed.record.note_queues(start.elapsed(), queue);
        observed.view.backlog = queue;
        Ok(())
    }

    fn read_sockets(&self, start: Instant, observed: &mut Observed) -> Result<(), DemoError> {
        let sockets = |role| read_sockets(&self.lab.host(role));
        let receivers = PerDirection { up: sockets(Role::U1)?, down: sockets(Role::D2)? };
        let at = start.elapsed();
        let senders = PerDirection { up: sockets(Role::U2)?, down: sockets(Role::D1)? };
        observed.record.note_sockets(at, &receivers, &senders);
        Ok(())
    }

    fn ask_prometheus(&self, start: Instant, observed: &mut Observed) -> Result<(), DemoError> {
        if let Some(prometheus) = self.prometheus {
            let at = start.elapsed();
            let firing = prometheus.firing()?;
            observed.view.alerts = Some(firing.clone());
            observed.fired.push((at, firing));
        }
        Ok(())
    }

    fn ask_agent(
        &mut self,
        start: Instant,
        observed: &mut Observed,
        misses: &mut u32,
    ) -> Result<(), DemoError> {
        let at = start.elapsed();
        let answers = self
            .agent
            .json("/api/v1/state")
            .and_then(|state| Ok((state, self.agent.json("/api/v1/flows?limit=20")?)));
        match answers {
            Ok((state, flows)) => {
                *misses = 0;
                observed.readings.push(Reading::of(at, &state, &flows));
            }
            Err(error) => {
                *misses += 1;
                if let Some(status) = self.agent.ended()? {
                    return Err(DemoError::AgentEnded { status, source: error });
                }
                if *misses >= PATIENCE {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// All transfers must still run.
fn check(running: &mut [(Duration, Transfer)], now: Duration) -> Result<(), DemoError> {
    for (at, transfer) in running {
        if transfer.client_has_ended()? {
            transfer.report()?;
            return Err(DemoError::EarlyEnd { seconds: (now - *at).as_secs() });
        }
    }
    Ok(())
}
