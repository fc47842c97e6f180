// The small pendulum: to the left while the uplink buffer holds the data, to the right while the downlink's does.

import type { Maybe, Tick } from '../api.ts';
import { byId, setAttribute } from '../dom.ts';

const WIDEST_DEGREES = 32;
// The part of the way to the aim that is made with each tick.
const PULL = 0.45;
// Below this the bob has no side.
const HANGING = 0.12;

export class Pendulum {
    private readonly arm = byId<SVGGElement>('swing-arm');
    private readonly bob = this.arm.querySelector('circle') as SVGCircleElement;
    private place = 0;

    // `full`: bytes that count as full, for each buffer.
    show(tick: Tick, full: { up: number; down: number }): void {
        const level = (values: Maybe<Maybe<number>[]>, most: number) =>
            Math.min((values?.at(-1) ?? 0) / Math.max(most, 1), 1);
        const aim = level(tick.down.queue_bytes, full.down) - level(tick.up.queue_bytes, full.up);
        this.place += PULL * (aim - this.place);
        // Seen from below its support, a positive turn swings the bob to the left.
        this.arm.setAttribute('transform', `rotate(${(-this.place * WIDEST_DEGREES).toFixed(1)} 0 -4)`);
        const side = this.place < -HANGING ? 'up' : this.place > HANGING ? 'down' : '';
        setAttribute(this.bob, 'class', `swing-bob ${side}`);
    }
}
