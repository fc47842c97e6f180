//! Classic TC filters on a device's clsact or ingress qdisc.

use futures_util::TryStreamExt;
use rtnetlink::packet_route::tc::{TcAttribute, TcFilterBpfOption, TcMessage, TcOption};

use super::NetError;

/// One filter, as people know it: `ingress: bpf pendulum_down`.
pub async fn filters(index: u32) -> Result<Vec<String>, NetError> {
    let (connection, handle, _) = rtnetlink::new_connection().map_err(NetError::Socket)?;
    let connection = tokio::spawn(connection);
    let mut found = Vec::new();
    for (side, request) in [
        ("ingress", handle.traffic_filter(index as i32).get().ingress()),
        ("egress", handle.traffic_filter(index as i32).get().egress()),
    ] {
        // The kernel refuses the request if there is no such qdisc: then there is no filter either.
        let messages: Vec<TcMessage> = request.execute().try_collect().await.unwrap_or_default();
        found.extend(messages.iter().filter_map(describe).map(|filter| format!("{side}: {filter}")));
    }
    connection.abort();
    Ok(found)
}

/// Kind and program of a filter. The kernel lists a head without options before the filters of a priority: skipped.
fn describe(message: &TcMessage) -> Option<String> {
    let mut kind = None;
    let mut program = None;
    let mut has_options = false;
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(name) => kind = Some(name.clone()),
            TcAttribute::Options(options) => {
                has_options = !options.is_empty();
                program = options.iter().find_map(|option| match option {
                    TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => Some(name.clone()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    let kind = kind.filter(|_| has_options)?;
    Some(match program {
        Some(program) => format!("{kind} {program}"),
        None => kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_its_kind_and_its_program_s_name() {
        let described = |options: Option<Vec<TcOption>>| {
            let mut message = TcMessage::default();
            message.attributes.push(TcAttribute::Kind("bpf".to_owned()));
            message.attributes.extend(options.map(TcAttribute::Options));
            describe(&message)
        };
        let name = TcOption::Bpf(TcFilterBpfOption::ProgName("pendulum_down".to_owned()));
        let id = TcOption::Bpf(TcFilterBpfOption::ProgId(7));
        assert_eq!(described(Some(vec![id.clone(), name])).as_deref(), Some("bpf pendulum_down"));
        assert_eq!(described(Some(vec![id])).as_deref(), Some("bpf"));
        // The head of a priority.
        assert_eq!(described(Some(vec![])), None);
        assert_eq!(described(None), None);
        assert_eq!(describe(&TcMessage::default()), None);
    }
}
