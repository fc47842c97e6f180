# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_pendulum_global_optspecs
    string join \n h/help V/version
end

function __fish_pendulum_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_pendulum_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_pendulum_using_subcommand
    set -l cmd (__fish_pendulum_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c pendulum -n "__fish_pendulum_needs_command" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_needs_command" -s V -l version -d 'Print version'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "run" -d 'Measure links until SIGTERM or SIGINT, and show the figures over HTTP'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "doctor" -d 'Check this machine and suggest fixes'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "replay" -d 'Analyse a capture as the agent would live traffic'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "advise" -d 'Recommend buffer sizes for a link, and predict their effect'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "top" -d 'Show an agent\'s figures in this terminal, live'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "report" -d 'Write one file for a request for help, without addresses'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "check-config" -d 'Check a configuration file and say where it is wrong'
complete -c pendulum -n "__fish_pendulum_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l config -d 'Configuration file' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l wan -d 'Network device towards the provider, e.g. ppp0' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l lan -d 'Network device towards the home hosts; may be repeated' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l uplink-rate -d 'Capacity towards the provider, as tc writes rates: 196kbit, 2.4mbit' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l downlink-rate -d 'Capacity from the provider' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l ingress-hook -d 'Where packets from the provider are seen [default: tc]' -r -f -a "tc\t'TC ingress: works on every device, after GRO'
xdp\t'XDP: before GRO, so that each segment has its own time; needs a device with a link layer'"
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l listen -d 'Address and port of the HTTP listener [default: 127.0.0.1:9924]' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l log-format -d 'Format of log lines on stderr [default: text]' -r -f -a "text\t'For people and the journal'
json\t'One JSON object for each line'"
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l log-level -d 'Least important log lines still written [default: info]' -r -f -a "error\t'What stops the agent or a link'
warn\t'What degrades a measurement'
info\t'What was attached, and what changed'
debug\t'Each step'
trace\t'Everything, also from libraries'"
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l wait -d 'Start although no device exists or is up yet, and attach when one comes. Without it, at least one configured device must exist; the agent waits for the others'
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -l cleanup -d 'Do not run: remove a killed agent\'s leftovers from the devices (shaper, filters), and list them'
complete -c pendulum -n "__fish_pendulum_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c pendulum -n "__fish_pendulum_using_subcommand doctor" -l wan -d 'Also look at this network device' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand doctor" -l listen -d 'Address and port that have to be free' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand doctor" -l format -d 'text: a table; json: one object' -r -f -a "text\t''
json\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l wan -d 'Capture at the gateway, before or behind the uplink\'s buffer: pcap or pcapng, also .gz or .zst; - for stdin' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l lan -d 'Capture on the home side, of the same time: makes the uplink queue exact' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l uplink-rate -d 'Rate of the uplink, as tc writes it (196kbit); learnt from the capture if not given' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l downlink-rate -d 'Rate of the downlink, likewise (2400kbit)' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l home -d 'Addresses behind the gateway (192.168.0.0/16, 2001:db8::/48); found out if not given; may be repeated' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l series -d 'Write both queues over time to this file: CSV, a row each 10 ms' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l incident -d 'Judge an incident again: a file from the page or /api/v1/incidents/ID; instead of captures' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -l format -d 'Form of the answer: a text, one JSON object, or one JSON line for each phase change and finding' -r -f -a "text\t'For people'
json\t'One object'
jsonl\t'One line for each phase change and finding'"
complete -c pendulum -n "__fish_pendulum_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l downlink-rate -d 'Capacity from the provider, as tc writes rates: 196kbit, 2.4mbit' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l uplink-rate -d 'Capacity towards the provider' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l rtt -d 'Round-trip time of the link without any queue: 40ms' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l url -d 'A running agent to take these from: http://127.0.0.1:9924' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l token-file -d 'File with the token that the agent wants (its http.token-file)' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l ca -d 'PEM file with the authority of the agent\'s certificate, or that certificate itself [default: the system\'s authorities]' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l link -d 'Which of the agent\'s links, if it has several' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l downlink-buffer -d 'Downlink buffer as it is: 30000, 30k, or 50p for packets. Without it one is recommended' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l uplink-buffer -d 'Uplink buffer as it is' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l delayed-acks -d 'Whether receivers answer two segments with one ACK' -r -f -a "yes\t''
no\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l unit -d 'What the buffers are counted in' -r -f -a "bytes\t''
packets\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l tcp-buffer -d 'Smaller of the two TCP socket buffers [default: unlimited]' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l congestion-control -d 'Congestion control of the senders that are simulated' -r -f -a "reno\t''
cubic\t''
bbr\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l paced -d 'Whether the simulated senders spread their segments over the round trip, as Linux does under fq' -r -f -a "yes\t''
no\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l downloads -d 'Long downloads at the same time' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l uploads -d 'Long uploads at the same time' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l aqm -d 'Queue in front of the uplink in the simulation: a buffer, or cake as cake_command sets it up' -r -f -a "fifo\t''
cake\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l delay-bound -d 'Longest delay that the queues of the buffer found by simulation may add, for 95 % of the time' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l wan -d 'WAN device named in the commands [default: the agent\'s, else wan]' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -l format -d 'text: for people; json: one object' -r -f -a "text\t''
json\t''"
complete -c pendulum -n "__fish_pendulum_using_subcommand advise" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l url -d 'The agent, as http://HOST:PORT or https://HOST:PORT' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l token-file -d 'File with the token that the agent wants (its http.token-file)' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l ca -d 'PEM file with the authority of the agent\'s certificate, or that certificate itself [default: the system\'s authorities]' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l link -d 'Link to begin with [default: the first]' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l redact -d 'Begin with addresses hidden'
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -l no-colour -l no-color -d 'No colours, as with NO_COLOR in the environment'
complete -c pendulum -n "__fish_pendulum_using_subcommand top" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -l wan -d 'Also check this network device' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -l config -d 'Configuration file of the agent' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -l url -d 'The agent, as http://HOST:PORT or https://HOST:PORT' -r
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -l token-file -d 'File with the token that the agent wants (its http.token-file)' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -l ca -d 'PEM file with the authority of the agent\'s certificate, or that certificate itself [default: the system\'s authorities]' -r -F
complete -c pendulum -n "__fish_pendulum_using_subcommand report" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_using_subcommand check-config" -s h -l help -d 'Print help'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "run" -d 'Measure links until SIGTERM or SIGINT, and show the figures over HTTP'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "doctor" -d 'Check this machine and suggest fixes'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "replay" -d 'Analyse a capture as the agent would live traffic'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "advise" -d 'Recommend buffer sizes for a link, and predict their effect'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "top" -d 'Show an agent\'s figures in this terminal, live'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "report" -d 'Write one file for a request for help, without addresses'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "check-config" -d 'Check a configuration file and say where it is wrong'
complete -c pendulum -n "__fish_pendulum_using_subcommand help; and not __fish_seen_subcommand_from run doctor replay advise top report check-config help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
