// What the agent sends; docs/reference/api.md explains every field. A figure that is not known is null or absent.

export type Maybe<T> = T | null | undefined;
export type DirectionName = 'up' | 'down';
export type PhaseName = 'uplink_bound' | 'downlink_bound' | 'balanced' | 'idle';

export const DIRECTIONS: DirectionName[] = ['up', 'down'];
export const PHASES: PhaseName[] = ['uplink_bound', 'downlink_bound', 'balanced', 'idle'];

export type DecisionName = 'idle' | 'hold' | 'raise' | 'lower' | 'drain' | 'policed' | 'route';
export const DECISIONS: DecisionName[] = ['raise', 'lower', 'drain', 'policed', 'route', 'hold', 'idle'];

export interface Report {
    version: string;
    uptime_s: number;
    links: Link[];
}

export interface Figure {
    name: string;
    value: number;
    threshold?: number;
}

export interface Evidence {
    rule: string;
    reason: string;
    figures: Figure[];
    since_s: number;
    // What it would take to say more: docs/reference/api.md.
    missing?: Maybe<string[]>;
}

// A buffer that never drains.
export interface Bufferbloat {
    delay_s: number;
    cause: Maybe<{ kind: string; share: number }>;
    help: string;
}

export interface Advice {
    uplink_buffer_bytes: Maybe<number>;
    uplink_buffer_packets: Maybe<number>;
    downlink_buffer_bytes: Maybe<number>;
    expected_ratio: Maybe<number>;
    max_queue_delay_s: Maybe<number>;
    commands: string[];
    confidence: unknown;
}

export interface Queue {
    source: string;
    trust?: string;
    qdisc?: string;
    bytes: Maybe<number>;
    // 0 if the level is exact, null if it is not known how far off the level may be.
    uncertainty_bytes?: Maybe<number>;
    packets?: Maybe<number>;
    ack_bytes: Maybe<number>;
    peak_bytes?: Maybe<number>;
    standing_bytes?: Maybe<number>;
    limit_bytes: Maybe<number>;
    // Shares of the bytes that entered lately: tcp_data, ack, udp, other.
    composition?: Maybe<Record<string, number>>;
    // What is no TCP and carries most; `share` of all bytes, at least.
    top_port?: Maybe<{ name: string; protocol?: number; share: number }>;
    drops?: Record<string, number>;
}

export interface Rtt {
    samples: number;
    min_s: Maybe<number>;
    mean_s: number;
    p50_s: number;
    p95_s: number;
}

export interface Direction {
    throughput_bps: number;
    goodput_bps: number;
    utilization: Maybe<number>;
    in_flight_bytes: number;
    flows: number;
    retransmitted_segments: number;
    rtt: Maybe<Rtt>;
    ack_burst: Maybe<{ mean: number; p95: number }>;
    queue: Maybe<Queue>;
    cwnd_bytes: Maybe<number>;
    cwnd_source: Maybe<string>;
}

export interface Source {
    what: string;
    direction: Maybe<string>;
    source: string;
}

// What one direction is shaped to; `auto`: how that rate is found, null if it is not looked for.
export interface ShapedLine {
    rate_bps: number;
    rate_source: Maybe<string>;
    auto: Maybe<{
        decision: DecisionName;
        reason: string;
        link_rate_bps: Maybe<number>;
        waits_behind_s: Maybe<number>;
        minimum_bps: Maybe<number>;
        maximum_bps: Maybe<number>;
    }>;
}

export interface Link {
    name: string;
    wan: string;
    device: string;
    attached: boolean;
    hooks: Maybe<{ egress: string; ingress: string; link_layer: string }>;
    trouble: Maybe<string>;
    // Where the agent stands: own_queue, before_uplink_buffer.
    vantage?: Maybe<string>;
    link: { uplink_rate_bps: Maybe<number>; downlink_rate_bps: Maybe<number>; rate_source: Maybe<string> };
    directions: Record<DirectionName, Direction>;
    losses: Record<string, number>;
    programs: { name: string; attached: boolean }[];
    phase?: Maybe<PhaseName>;
    phase_for_s?: Maybe<number>;
    phase_source?: Maybe<string>;
    phase_share?: Maybe<Record<PhaseName, number>>;
    // Of how many seconds the shares are.
    horizon_s?: Maybe<number>;
    phase_transitions?: Maybe<number>;
    verdict?: Maybe<string>;
    verdict_for_s?: Maybe<number>;
    evidence?: Maybe<Evidence>;
    bufferbloat?: Maybe<Record<DirectionName, Maybe<Bufferbloat>>>;
    // What even the luckiest packet waits in the buffer.
    standing_delay_s?: Maybe<Record<DirectionName, Maybe<number>>>;
    swing_period_s?: Maybe<number>;
    queue_correlation?: Maybe<number>;
    throughput_ratio?: Maybe<{ measured: Maybe<number>; predicted: Maybe<number> }>;
    advice?: Maybe<Advice>;
    unfair?: unknown;
    shape?: Maybe<{ state: string; uplink: Maybe<ShapedLine>; downlink: Maybe<ShapedLine> }>;
    sources?: Maybe<Source[]>;
    degraded?: Maybe<string[]>;
}

export interface TickHalf {
    queue_bytes: Maybe<Maybe<number>[]>;
    // How far each of these may be off; 0: it was read.
    queue_uncertainty_bytes?: Maybe<Maybe<number>[]>;
    queue_ack_bytes: Maybe<Maybe<number>[]>;
    throughput_bps: Maybe<number>;
    rtt_s: Maybe<number>;
    source?: Maybe<string>;
    // Null where no rate is looked for, and while packets do not pass the shaper.
    auto?: Maybe<{ rate_bps: number; waits_behind_s: Maybe<number>; decision: DecisionName }>;
}

// 100 ms of a link: ten means of 10 ms each, oldest first; at_s is the end of the last one.
export interface Tick {
    link: string;
    at_s: number;
    step_s: number;
    up: TickHalf;
    down: TickHalf;
    phase: Maybe<PhaseName>;
    verdict: Maybe<string>;
    skipped: number;
}

export interface StepHalf {
    queue_bytes: Maybe<number>;
    queue_uncertainty_bytes?: Maybe<number>;
    queue_peak_bytes: Maybe<number>;
    queue_ack_bytes: Maybe<number>;
    throughput_bps: Maybe<number>;
    rtt_s: Maybe<number>;
    auto?: Maybe<{
        rate_bps: number;
        waits_behind_s: Maybe<number>;
        waits_behind_peak_s: Maybe<number>;
        decision_share: Partial<Record<DecisionName, number>>;
    }>;
}

// Ten seconds of what was; at_s is the end, on the clock of the ticks.
export interface Step {
    at_s: number;
    lasted_s: number;
    up: StepHalf;
    down: StepHalf;
    phase_share: Maybe<Record<PhaseName, number>>;
}

export interface Finding {
    seq: number;
    link: string;
    time: string;
    at_s: number;
    event: string;
    from?: Maybe<string>;
    to?: Maybe<string>;
    finding?: string;
    direction?: Maybe<string>;
    evidence?: Maybe<Evidence>;
}

export interface FlowHalf {
    throughput_bps: number;
    goodput_bps: number;
    in_flight_bytes: number;
    rtt_min_s: Maybe<number>;
    rtt_mean_s: Maybe<number>;
    rtt_last_s: Maybe<number>;
    segments_per_ack: Maybe<number>;
    retransmitted_segments: number;
}

export interface Flow {
    link: string;
    client: string;
    server: string;
    home: 'client' | 'server';
    // The host behind the home end's address, where that is translated.
    home_host?: string;
    home_device?: string;
    traffic?: 'home' | 'gateway' | 'other';
    direction: DirectionName;
    state: string;
    age_s: number;
    idle_s: number;
    up: FlowHalf;
    down: FlowHalf;
}

export interface FlowReport {
    total: number;
    // Why the hosts behind translated addresses are not named.
    home_host_missing?: string;
    flows: Flow[];
}
