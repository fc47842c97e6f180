// Where "now" is on the agent's clock, smooth enough to scroll by although ticks arrive unevenly.

// The picture runs this far behind the newest tick, so that one late tick leaves no hole at its edge.
const BEHIND_S = 0.15;
// A change of the offset beyond this is a new agent or a sleep of this machine.
const JUMP_S = 2;
const SMOOTHING = 0.05;

export class Clock {
    private offset: number | null = null;

    note(at_s: number): void {
        const offset = at_s - performance.now() / 1000;
        if (this.offset === null || Math.abs(offset - this.offset) > JUMP_S) this.offset = offset;
        else this.offset += SMOOTHING * (offset - this.offset);
    }

    // The right edge of the charts, or null before the first tick.
    edge(): number | null {
        return this.offset === null ? null : this.offset + performance.now() / 1000 - BEHIND_S;
    }
}
