//! The object against the agent that loads it.

use pendulum::bpf::QUEUE_OBJECT;

#[test]
fn object_has_what_the_agent_asks_for() {
    let object = aya_obj::Object::parse(QUEUE_OBJECT).expect("a BPF object");
    for program in ["pendulum_enqueue", "pendulum_dequeue", "pendulum_drop"] {
        assert!(object.programs.contains_key(program), "no program {program}");
    }
    for map in ["queue_devices", "queues", "history", "sojourns", "departures"] {
        assert!(object.maps.contains_key(map), "no map {map}");
    }
}
