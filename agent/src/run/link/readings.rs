//! What a link's task reads from the kernel, each part in its own rhythm.

use std::time::Instant;

use pendulum_model::segment::Direction;
use tracing::warn;

use super::{LinkTask, SWEEPS_PER_NURSERY, TICKS_PER_SWEEP};
use crate::bpf::BpfError;
use crate::net::DeviceBytes;
use crate::run::meter::CounterReading;
use crate::snapshot::ReadingKind;

impl LinkTask {
    /// Answers when, if it was possible.
    pub(super) fn read_counters(&mut self) -> Option<Instant> {
        let loaded = self.loaded.as_ref()?;
        let started = Instant::now();
        let read = loaded
            .programs
            .counters()
            .and_then(|counters| Ok(CounterReading { counters, stats: loaded.programs.stats()? }));
        let counted = self.note(ReadingKind::Counters, started, read)?;
        self.meter.observe(started, counted);
        self.read_at = Some(started);
        Some(started)
    }

    /// What the device itself counts. One that does not tell is no failure: the share that was not seen is unknown then.
    pub(super) fn read_device(&mut self) {
        let Some(device) = self.attached_to().and_then(|ifindex| DeviceBytes::read(ifindex).ok()?) else {
            return;
        };
        let seen = self.meter.totals().counters.map(|counters| counters.bytes.iter().sum());
        self.unseen.observe(Instant::now(), device, seen, self.queues.uplink_bytes().into());
    }

    pub(super) fn read_flows(&mut self) {
        let Some(loaded) = &mut self.loaded else { return };
        let started = Instant::now();
        // Before the table, see `Sweeper::sweep`.
        let promoted = self.meter.promoted();
        let read = loaded.programs.flows().and_then(|table| {
            let ended = self.sweeper.sweep(started, promoted, table);
            let removed = loaded.programs.remove_flows(&ended)?;
            self.sweeper.removed(removed);
            if self.ticks.is_multiple_of(TICKS_PER_SWEEP * SWEEPS_PER_NURSERY) {
                loaded.programs.nursery()?;
            }
            Ok(())
        });
        self.swept = self.note(ReadingKind::Flows, started, read).is_some();
        if self.swept {
            let acknowledged = self.sweeper.latest().totals;
            let (carried, totals) = (self.meter.carried(), self.meter.totals().counters);
            for x in Direction::ALL {
                let (counters, carried) = (&totals[x], carried[x]);
                let counted = [counters.bytes.iter().sum(), counters.payload_bytes];
                self.second[x].observe(started, carried, counted, acknowledged[x].goodput);
            }
        }
        self.evictions.tell(self.sweeper.latest().evicted, started, &self.config);
    }

    pub(super) fn read_queues(&mut self) {
        let started = Instant::now();
        self.queues.follow_shaper(&self.config, &self.devices.borrow());
        let read = self.queues.sweep(&self.sweeper.latest()).and_then(|()| {
            let Some(loaded) = &self.loaded else { return Ok(()) };
            let ports = loaded.programs.ports()?;
            let totals = self.meter.totals().counters.map(|counters| counters.composition());
            self.entered.observe(started, totals, ports);
            Ok(())
        });
        self.note(ReadingKind::Queues, started, read);
    }

    pub(super) fn read_programs(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let started = Instant::now();
        let running = loaded
            .programs
            .programs()
            .into_iter()
            .chain(self.queues.programs())
            .chain(self.shaper.programs());
        self.programs = self.program_totals.observe(running);
        self.maps = loaded.programs.maps().into();
        self.note(ReadingKind::Programs, started, Ok(()));
    }

    /// Keeps account of a reading; a failure is reported once, not ten times a second.
    fn note<T>(&mut self, reading: ReadingKind, started: Instant, read: Result<T, BpfError>) -> Option<T> {
        let health = &mut self.readings[reading as usize];
        let was_ok = health.ok || health.failures == 0;
        health.took = started.elapsed();
        health.ok = read.is_ok();
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                health.failures += 1;
                if was_ok {
                    warn!(
                        link = self.config.name,
                        reading = reading.name(),
                        "{}",
                        crate::exit::chain(&error)
                    );
                }
                None
            }
        }
    }
}
