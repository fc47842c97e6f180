// Written by `./dev generate` from agent/wire. An unknown figure is null or absent.

export type Maybe<T> = T | null | undefined;

// `/api/v1/state`: every link.
export interface State {
    version: string;
    uptime_s: number;
    config: Reloads;
    links: Link[];
}

// How reloads of the configuration went.
export interface Reloads {
    reloads_applied: number;
    reloads_refused: number;
    error: Maybe<string>;
    waiting_for_restart: string[];
}

// One link.
export interface Link {
    name: string;
    wan: string;
    device: string;
    attached: boolean;
    hooks: Maybe<Hooks>;
    trouble: Maybe<string>;
    vantage: Maybe<string>;
    link: Rates;
    directions: { up: Direction; down: Direction };
    flow_table: FlowTable;
    phase: Maybe<PhaseName>;
    phase_for_s: Maybe<number>;
    phase_source: Maybe<string>;
    phase_share: Maybe<PerPhase>;
    horizon_s: Maybe<number>;
    phase_seconds: Maybe<PerPhase>;
    phase_transitions: Maybe<number>;
    verdict: Maybe<VerdictName>;
    verdict_for_s: Maybe<number>;
    lost_ratio: Maybe<number>;
    severity: Maybe<SeverityName>;
    evidence: Maybe<Evidence>;
    swing_period_s: Maybe<number>;
    queue_correlation: Maybe<number>;
    queue_lag_s: Maybe<number>;
    throughput_ratio: Maybe<Ratio>;
    delay: Maybe<Delay>;
    round_trip_s: Maybe<number>;
    base_round_trip_s: Maybe<number>;
    base_round_trip_proven: Maybe<boolean>;
    bulk: Maybe<{ up: boolean; down: boolean }>;
    unfair: Maybe<{ up: boolean; down: boolean }>;
    standing_delay_s: { up: Maybe<number>; down: Maybe<number> };
    bufferbloat: { up: Maybe<Bufferbloat>; down: Maybe<Bufferbloat> };
    round_trip_classes: { up: Maybe<RttClasses>; down: Maybe<RttClasses> };
    advice: Maybe<Advice>;
    sources: Source[];
    degraded: string[];
    shape: Maybe<Shape>;
    losses: Record<string, number>;
    programs: BpfProgram[];
    maps: BpfMap[];
}

// What to set, for the link as measured.
export interface Advice {
    uplink_buffer_bytes: number;
    uplink_buffer_packets: number;
    downlink_buffer_bytes: number;
    wanted_ratio: number;
    expected_ratio: Maybe<number>;
    download_bps: number;
    upload_bps: number;
    max_queue_delay_s: number;
    commands: string[];
    confidence: string;
    predicted_inputs: Maybe<PredictedInputs>;
    predicted: Maybe<Predicted>;
    predicted_reason: Maybe<string>;
    predicted_as_advised: Maybe<Predicted>;
    predicted_as_advised_reason: Maybe<string>;
    recommended: Maybe<Recommended>;
    recommended_reason: Maybe<string>;
}

// What the simulation gives.
export interface Predicted {
    download_bps: number;
    upload_bps: number;
    ratio: number;
    ratio_interval: [number, number];
    queue_delay_mean_s: number;
    queue_delay_p95_s: number;
}

// The link and the transfers that were simulated.
export interface PredictedInputs {
    downlink_rate_bps: number;
    uplink_rate_bps: number;
    rtt_s: number;
    downlink_buffer: Maybe<string>;
    uplink_buffer: Maybe<string>;
    congestion_control: string;
    downloads: number;
    uploads: number;
}

// The best uplink buffer by the simulation.
export interface Recommended {
    uplink_buffer_bytes: number;
    download_bps: number;
    upload_bps: number;
    queue_delay_p95_s: number;
    delay_bound_s: number;
    lost_with_present: Maybe<number>;
}

// A buffer that never drains.
export interface Bufferbloat {
    since_s: number;
    delay_s: number;
    cause: Maybe<Cause>;
    help: string;
}

// The main traffic in a buffer.
export interface Cause {
    kind: string;
    share: number;
}

// Where the delay of the last second's packets came from.
export interface Delay {
    place: string;
    queue_s: Maybe<number>;
    segments: Record<string, DelaySegment>;
    home_bloat: Maybe<SegmentBloat>;
    beyond_bloat: Maybe<SegmentBloat>;
    sender_limited: Maybe<TransferLimit>;
    receiver_limited: Maybe<TransferLimit>;
}

// Packets wait in a segment for long.
export interface SegmentBloat {
    since_s: number;
    delay_s: number;
}

// A transfer is slow for long, and the line is not why.
export interface TransferLimit {
    since_s: number;
    goodput_bps: number;
}

// One segment of the delay.
export interface DelaySegment {
    base_s: Maybe<number>;
    queue_s: Maybe<number>;
    uncertainty_s: Maybe<number>;
    host?: string;
    unknown?: string;
}

// One direction of a link. Counters are since the start and go on when a device comes back.
export interface Direction {
    segments: Record<string, number>;
    bytes: number;
    payload_bytes: number;
    retransmitted_segments: number;
    reordered_segments: number;
    marked_segments: Record<string, number>;
    throughput_bps: number;
    throughput_1s_bps: Maybe<number>;
    goodput_bps: number;
    utilization: Maybe<number>;
    in_flight_bytes: number;
    flows: number;
    rtt: Maybe<Rtt>;
    ack_burst: Maybe<AckBurst>;
    queue: Maybe<Queue>;
    cwnd_bytes: Maybe<number>;
    cwnd_source: Maybe<string>;
    unseen_ratio: Maybe<number>;
}

// Pure ACKs between two data segments.
export interface AckBurst {
    mean: number;
    p95: number;
    histogram: Record<string, number>;
}

// The buffer in front of the link. Of a buffer elsewhere (`source` is `estimate`) only `bytes`, `peak_bytes`, `uncertainty_bytes`, `standing_bytes`, `limit_bytes`, `composition`, `top_port` and `trust` are known.
export interface Queue {
    source: string;
    trust: Maybe<string>;
    qdisc: Maybe<string>;
    bytes: Maybe<number>;
    packets: Maybe<number>;
    ack_bytes: Maybe<number>;
    ack_packets: Maybe<number>;
    peak_bytes: Maybe<number>;
    uncertainty_bytes: Maybe<number>;
    standing_bytes: Maybe<number>;
    limit_bytes: Maybe<number>;
    composition: Maybe<Record<string, number>>;
    top_port: Maybe<TopPort>;
    drops: Record<string, number>;
}

// The largest traffic that is not TCP.
export interface TopPort {
    name: string;
    protocol: number;
    port: Maybe<number>;
    share: number;
}

// Round trips, seconds.
export interface Rtt {
    samples: number;
    min_s: Maybe<number>;
    mean_s: number;
    p50_s: number;
    p95_s: number;
}

// The reason of a statement.
export interface Evidence {
    rule: string;
    reason: string;
    figures: Figure[];
    since_s: number;
    held_since_s?: number;
    missing?: string[];
}

// One figure that a rule looked at.
export interface Figure {
    name: string;
    value: number;
    threshold?: number;
}

// The table of flows; counters are since the start.
export interface FlowTable {
    flows: number;
    nursed: number;
    promoted: number;
    restarted: number;
    expired: number;
    evicted: number;
}

// Where the programs are attached.
export interface Hooks {
    ifindex: number;
    link_layer: string;
    egress: string;
    ingress: string;
}

// The rates of a link.
export interface Rates {
    uplink_rate_bps: Maybe<number>;
    downlink_rate_bps: Maybe<number>;
    rate_source: Maybe<string>;
}

// A map in the kernel.
export interface BpfMap {
    name: string;
    entries: number;
    capacity: number;
}

export const PHASES = ['uplink_bound', 'downlink_bound', 'balanced', 'idle'] as const;
export type PhaseName = (typeof PHASES)[number];

// One figure for each phase.
export interface PerPhase {
    uplink_bound: number;
    downlink_bound: number;
    balanced: number;
    idle: number;
}

// A program in the kernel.
export interface BpfProgram {
    name: string;
    attached: boolean;
    runs: Maybe<number>;
    run_seconds: Maybe<number>;
}

// Flows with short and with long round trips in one direction.
export interface RttClasses {
    near_flows: number;
    far_flows: number;
    near_round_trip_s: number;
    far_round_trip_s: number;
    near_share: number;
    near_far_ratio: number;
}

export const SEVERITYS = ['info', 'warning', 'critical'] as const;
export type SeverityName = (typeof SEVERITYS)[number];

// The shaper of a link.
export interface Shape {
    state: string;
    reason: Maybe<string>;
    ack_filter: string;
    delta: Maybe<number>;
    uplink: Maybe<Shaped>;
    downlink: Maybe<Shaped>;
    acks: Maybe<Record<string, Record<string, number>>>;
    held_acks: Maybe<number>;
    held_bytes: Maybe<number>;
    ab_test: Maybe<AbTest>;
}

// A/B intervals with shaping against those without.
export interface AbTest {
    pairs: number;
    outcome: string;
    change: Maybe<number>;
    confidence_interval: Maybe<[number, number]>;
    rtt_change: Maybe<number>;
    rtt_confidence_interval: Maybe<[number, number]>;
    with: Turn;
    without: Turn;
    statement: string;
}

// Means over turns.
export interface Turn {
    download_bps: number;
    upload_bps: number;
    rtt_s: Maybe<number>;
}

// What one direction is shaped to.
export interface Shaped {
    rate_bps: number;
    rate_source: Maybe<string>;
    auto: Maybe<Auto>;
}

// How a rate is found.
export interface Auto {
    decision: DecisionName;
    reason: string;
    link_rate_bps: Maybe<number>;
    waits_behind_s: Maybe<number>;
    minimum_bps: Maybe<number>;
    maximum_bps: Maybe<number>;
}

export const DECISIONS = ['hold', 'raise', 'lower', 'drain', 'outage'] as const;
export type DecisionName = (typeof DECISIONS)[number];

// Where something comes from.
export interface Source {
    what: string;
    direction: Maybe<string>;
    source: string;
}

// Download throughput over upload throughput.
export interface Ratio {
    measured: Maybe<number>;
    predicted: Maybe<number>;
}

export const VERDICTS = ['swinging', 'locked_uplink', 'locked_downlink', 'ack_compression', 'one_way', 'balanced', 'clear', 'unknown'] as const;
export type VerdictName = (typeof VERDICTS)[number];

// `/api/v1/events`.
export interface Events {
    events: JournalEvent[];
    dropped: number;
    last_event_id: string;
}

// Something that changed. Which fields there are depends on `event`.
export interface JournalEvent {
    seq: number;
    link: string;
    time: string;
    at_s: number;
    event: string;
    from: Maybe<string>;
    evidence: Evidence;
    decision?: string;
    direction?: string;
    dwell_s?: number;
    finding?: string;
    from_bps?: number;
    lost_ratio?: number;
    severity?: string;
    to?: string;
    to_bps?: number;
}

// The last 15 minutes of a link.
export interface History {
    link: string;
    step_s: number;
    steps: Step[];
}

// One step. Unknown figures are `null`.
export interface Step {
    at_s: number;
    lasted_s: number;
    up: StepHalf;
    down: StepHalf;
    phase_share: Maybe<PerPhase>;
    verdict: Maybe<VerdictName>;
}

// One direction of a step.
export interface StepHalf {
    queue_bytes: Maybe<number>;
    queue_uncertainty_bytes: Maybe<number>;
    queue_peak_bytes: Maybe<number>;
    queue_ack_bytes: Maybe<number>;
    throughput_bps: Maybe<number>;
    rtt_s: Maybe<number>;
    auto: Maybe<StepAuto>;
}

// The rates that the shaper found.
export interface StepAuto {
    rate_bps: number;
    waits_behind_peak_s: Maybe<number>;
    waits_behind_s: Maybe<number>;
    decision_share: Record<string, number>;
}

// Recordings of what lasted.
export interface Incidents {
    incidents: Incident[];
    trouble: Maybe<string>;
}

// A change that lasted, in short.
export interface Incident {
    id: string;
    link: string;
    time: string;
    what: string;
    direction: Maybe<string>;
    severity: SeverityName;
    lost_ratio: Maybe<number>;
    reason: string;
    lasted_s: number;
    verdict: VerdictName;
    shaper: string;
    before_s: number;
    step_s: number;
    up_queue_bytes: Maybe<number>[];
    down_queue_bytes: Maybe<number>[];
}

// Event `tick`: measurements since the tick before, in steps of 10 ms.
export interface Tick {
    link: string;
    at_s: number;
    step_s: number;
    up: TickHalf;
    down: TickHalf;
    phase: Maybe<PhaseName>;
    verdict: Maybe<VerdictName>;
    skipped: number;
}

// One direction of a tick.
export interface TickHalf {
    queue_bytes: Maybe<number[]>;
    queue_uncertainty_bytes: Maybe<number[]>;
    queue_ack_bytes: Maybe<number[]>;
    source: Maybe<string>;
    throughput_bps: number;
    rtt_s: Maybe<number>;
    auto: Maybe<TickAuto>;
}

// A rate that the shaper has found.
export interface TickAuto {
    rate_bps: number;
    waits_behind_s: Maybe<number>;
    decision: DecisionName;
}

// Event `dropped`.
export interface Dropped {
    dropped: number;
}

// `/api/v1/flows`.
export interface Flows {
    total: number;
    flows: Flow[];
    home_host_missing?: string;
}

// A TCP connection.
export interface Flow {
    link: string;
    client: string;
    server: string;
    home: string;
    direction: DirectionName;
    state: string;
    age_s: number;
    idle_s: number;
    up: FlowHalf;
    down: FlowHalf;
    home_device?: string;
    home_host?: string;
    home_host_source?: string;
    traffic?: string;
}

export const DIRECTIONS = ['up', 'down'] as const;
export type DirectionName = (typeof DIRECTIONS)[number];

// One direction of a flow.
export interface FlowHalf {
    bytes: number;
    payload_bytes: number;
    segments: number;
    data_segments: number;
    throughput_bps: number;
    goodput_bps: number;
    in_flight_bytes: number;
    in_flight_max_bytes: number;
    rtt_min_s: Maybe<number>;
    rtt_mean_s: Maybe<number>;
    rtt_last_s: Maybe<number>;
    segments_per_ack: Maybe<number>;
    retransmitted_segments: number;
    reordered_segments: number;
}

// A request that was not answered as asked.
export interface Refused {
    error: Refusal;
}

// Why a request was refused.
export interface Refusal {
    status: number;
    reason: string;
    remedy: string;
}
