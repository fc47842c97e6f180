// One simulated link with a known truth: the topology of paper 000 in ns-3 3.37, as captures and as what the routers' buffers held.
//
//     home hosts ── R2 ═══ link of two rates ═══ R1 ── far hosts
//               LAN    uplink's        downlink's
//                      buffer (R2)     buffer (R1)
//
// Both buffers are drop-tail queues that count bytes or packets of IP; the link adds no framing, so that its rate is that of IP bytes.
// `score.py` builds and calls this program; `--PrintHelp` lists its parameters. Files that it writes into --out:
//
//   lan.pcap, wan.pcap                   the first 96 bytes of each packet at both sides of R2, link type "raw IP"; a packet of the uplink
//                                        is in lan.pcap when it comes to R2, in wan.pcap when its transmission begins
//   queue_R2_up.csv, queue_R1_down.csv   a row each 10 ms: the level at that moment; since the row before the lowest and the highest level, the
//                                        bytes that left, those of packets with data, and how many packets were dropped
//   flows.csv                            what each flow's receiver got
//
// Times are seconds of the simulation; in the captures 1,700,000,000 s later.

#include "ns3/core-module.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/simple-channel.h"
#include "ns3/simple-net-device.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// What is added to the simulation's time in the captures, seconds.
const double CAPTURE_EPOCH_S = 1.7e9;

/// Payload of a datagram, as QUIC's: 1,228 bytes of IP.
const uint32_t DATAGRAM_BYTES = 1200;

/// No pure ACK is longer, with options.
const uint32_t ACK_BYTES = 120;

/// DLT_RAW.
const uint32_t RAW_IP = 101;

/// One transfer.
struct FlowPlan
{
    bool up;         ///< from home
    double start_s;
    double stop_s;   ///< 0: to the end
    uint64_t bytes;  ///< 0: no limit
    uint64_t rate;   ///< bit/s that the application offers; 0: as much as the transport takes
    uint32_t far;    ///< index of the far host
    std::string transport; ///< TcpLinuxReno, TcpCubic, TcpBbr, or udp
};

std::vector<std::string>
Split(const std::string& text, char by)
{
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, by);)
    {
        if (!part.empty())
        {
            parts.push_back(part);
        }
    }
    return parts;
}

/// `direction:start:stop:bytes:rate:far:transport`, `;` between flows.
std::vector<FlowPlan>
ParseFlows(const std::string& text)
{
    std::vector<FlowPlan> flows;
    for (const auto& entry : Split(text, ';'))
    {
        auto cells = Split(entry, ':');
        NS_ABORT_MSG_IF(cells.size() != 7, "a flow has seven fields: " << entry);
        flows.push_back({cells[0] == "U",
                         std::stod(cells[1]),
                         std::stod(cells[2]),
                         std::stoull(cells[3]),
                         std::stoull(cells[4]),
                         static_cast<uint32_t>(std::stoul(cells[5])),
                         cells[6]});
    }
    return flows;
}

/// Writes what a router's buffer held: a row each 10 ms.
class QueueLog
{
  public:
    QueueLog(const std::string& path, Ptr<Queue<Packet>> queue)
        : m_file(std::fopen(path.c_str(), "w")),
          m_queue(queue)
    {
        NS_ABORT_MSG_UNLESS(m_file, "cannot write " << path);
        std::fputs("t_s,bytes,least_bytes,most_bytes,left_bytes,left_data_bytes,drops\n", m_file);
        queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&QueueLog::Enter, this));
        queue->TraceConnectWithoutContext("Dequeue", MakeCallback(&QueueLog::Leave, this));
        queue->TraceConnectWithoutContext("DropBeforeEnqueue", MakeCallback(&QueueLog::Drop, this));
        Write();
    }

    ~QueueLog()
    {
        std::fclose(m_file);
    }

  private:
    void Enter(Ptr<const Packet> /* packet */)
    {
        // A packet that goes on at once never waited: its departure is the next event of this moment.
        m_most = std::max(m_most, m_queue->GetNBytes());
    }

    void Leave(Ptr<const Packet> packet)
    {
        m_least = std::min(m_least, m_queue->GetNBytes());
        m_left += packet->GetSize();
        m_leftData += packet->GetSize() > ACK_BYTES ? packet->GetSize() : 0;
    }

    void Drop(Ptr<const Packet> /* packet */)
    {
        m_drops++;
    }

    void Write()
    {
        auto level = m_queue->GetNBytes();
        std::fprintf(m_file,
                     "%.2f,%u,%u,%u,%u,%u,%u\n",
                     Simulator::Now().GetSeconds(),
                     level,
                     std::min(m_least, level),
                     std::max(m_most, level),
                     m_left,
                     m_leftData,
                     m_drops);
        m_least = m_most = level;
        m_left = m_leftData = m_drops = 0;
        Simulator::Schedule(MilliSeconds(10), &QueueLog::Write, this);
    }

    std::FILE* m_file;
    Ptr<Queue<Packet>> m_queue;
    uint32_t m_least{0};
    uint32_t m_most{0};
    uint32_t m_left{0};
    uint32_t m_leftData{0};
    uint32_t m_drops{0};
};

/// Both captures at R2.
class Taps
{
  public:
    Taps(const std::string& out, Ptr<Node> r2, uint32_t wanInterface, Ptr<Queue<Packet>> uplink)
        : m_lan(out + "/lan.pcap"),
          m_wan(out + "/wan.pcap"),
          m_wanInterface(wanInterface)
    {
        auto ip = r2->GetObject<Ipv4L3Protocol>();
        ip->TraceConnectWithoutContext("Rx", MakeCallback(&Taps::Receive, this));
        ip->TraceConnectWithoutContext("Tx", MakeCallback(&Taps::Send, this));
        uplink->TraceConnectWithoutContext("Dequeue", MakeCallback(&Taps::Depart, this));
    }

  private:
    /// One file.
    struct Capture
    {
        explicit Capture(const std::string& path)
        {
            file.Open(path, std::ios::out | std::ios::binary);
            NS_ABORT_MSG_IF(file.Fail(), "cannot write " << path);
            file.Init(RAW_IP, 96);
        }

        void Write(Ptr<const Packet> packet)
        {
            Time at = Simulator::Now() + Seconds(CAPTURE_EPOCH_S);
            auto us = static_cast<uint64_t>(at.GetMicroSeconds());
            file.Write(us / 1000000, us % 1000000, packet);
        }

        PcapFile file;
    };

    void Receive(Ptr<const Packet> packet, Ptr<Ipv4> /* ip */, uint32_t interface)
    {
        (interface == m_wanInterface ? m_wan : m_lan).Write(packet);
    }

    void Send(Ptr<const Packet> packet, Ptr<Ipv4> /* ip */, uint32_t interface)
    {
        if (interface != m_wanInterface)
        {
            m_lan.Write(packet);
        }
    }

    void Depart(Ptr<const Packet> packet)
    {
        m_wan.Write(packet);
    }

    Capture m_lan;
    Capture m_wan;
    uint32_t m_wanInterface;
};

/// A transfer. The home end always begins, as behind NAT.
class Flow
{
  public:
    Flow(const FlowPlan& plan, Ptr<Node> home, Ptr<Node> far, Ipv4Address farAddress, uint16_t number)
        : m_plan(plan),
          m_left(plan.bytes ? plan.bytes : UINT64_MAX),
          m_port(plan.transport == "udp" ? 443 + number : 8000 + number),
          m_home(home),
          m_far(far),
          m_farAddress(farAddress)
    {
        Simulator::ScheduleWithContext(home->GetId(), Seconds(plan.start_s), &Flow::Begin, this);
        if (plan.stop_s > 0)
        {
            Simulator::Schedule(Seconds(plan.stop_s), &Flow::End, this);
        }
    }

    const FlowPlan& Plan() const
    {
        return m_plan;
    }

    uint64_t Received() const
    {
        return m_received;
    }

  private:
    void Begin()
    {
        bool tcp = m_plan.transport != "udp";
        auto type = tcp ? TcpSocketFactory::GetTypeId() : UdpSocketFactory::GetTypeId();
        m_listener = Socket::CreateSocket(m_far, type);
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), m_port));
        m_near = Socket::CreateSocket(m_home, type);
        m_near->Bind();
        if (tcp)
        {
            m_listener->Listen();
            m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                          MakeCallback(&Flow::Accept, this));
            m_near->SetConnectCallback(MakeCallback(&Flow::Connected, this),
                                       MakeNullCallback<void, Ptr<Socket>>());
            m_near->SetRecvCallback(MakeCallback(&Flow::Drain, this));
            m_near->Connect(InetSocketAddress(m_farAddress, m_port));
            return;
        }
        m_near->Connect(InetSocketAddress(m_farAddress, m_port));
        m_near->SetRecvCallback(MakeCallback(&Flow::Drain, this));
        m_listener->SetRecvCallback(MakeCallback(&Flow::Knocked, this));
        m_near->Send(Create<Packet>(DATAGRAM_BYTES));
        if (m_plan.up)
        {
            m_sender = m_near;
            Tick();
        }
    }

    void Accept(Ptr<Socket> socket, const Address& /* from */)
    {
        socket->SetRecvCallback(MakeCallback(&Flow::Drain, this));
        if (!m_plan.up)
        {
            Start(socket);
        }
    }

    void Connected(Ptr<Socket> socket)
    {
        if (m_plan.up)
        {
            Start(socket);
        }
    }

    /// The far end of a UDP flow knows now where home is.
    void Knocked(Ptr<Socket> socket)
    {
        Address from;
        while (auto packet = socket->RecvFrom(from))
        {
            m_received += m_plan.up ? packet->GetSize() : 0;
        }
        if (!m_plan.up && !m_sender)
        {
            socket->Connect(from);
            m_sender = socket;
            Tick();
        }
    }

    void Start(Ptr<Socket> socket)
    {
        m_sender = socket;
        if (m_plan.rate)
        {
            Tick();
            return;
        }
        m_allowed = UINT64_MAX;
        socket->SetSendCallback(MakeCallback(&Flow::Pump, this));
        Pump(socket, socket->GetTxAvailable());
    }

    /// The application offers another datagram's worth.
    void Tick()
    {
        if (m_ended || m_left == 0)
        {
            End();
            return;
        }
        if (m_plan.transport == "udp")
        {
            m_sender->Send(Create<Packet>(DATAGRAM_BYTES));
            m_left -= std::min<uint64_t>(m_left, DATAGRAM_BYTES);
        }
        else
        {
            m_allowed += DATAGRAM_BYTES;
            Pump(m_sender, m_sender->GetTxAvailable());
        }
        Simulator::Schedule(Seconds(DATAGRAM_BYTES * 8.0 / m_plan.rate), &Flow::Tick, this);
    }

    void Pump(Ptr<Socket> socket, uint32_t available)
    {
        while (!m_ended && available > 0 && m_left > 0 && m_allowed > 0)
        {
            auto most = std::min<uint64_t>({available, m_left, m_allowed, 1U << 16});
            int sent = socket->Send(Create<Packet>(static_cast<uint32_t>(most)));
            if (sent <= 0)
            {
                return;
            }
            m_left -= sent;
            m_allowed -= m_allowed == UINT64_MAX ? 0 : sent;
            available = socket->GetTxAvailable();
        }
        if (m_left == 0)
        {
            End();
        }
    }

    void Drain(Ptr<Socket> socket)
    {
        while (auto packet = socket->Recv())
        {
            if (packet->GetSize() == 0)
            {
                return;
            }
            m_received += packet->GetSize();
        }
    }

    void End()
    {
        if (!m_ended && m_sender)
        {
            m_ended = true;
            m_sender->Close();
        }
    }

    FlowPlan m_plan;
    uint64_t m_left;
    uint64_t m_allowed{0};
    uint64_t m_received{0};
    bool m_ended{false};
    uint16_t m_port;
    Ptr<Node> m_home;
    Ptr<Node> m_far;
    Ipv4Address m_farAddress;
    Ptr<Socket> m_listener;
    Ptr<Socket> m_near;
    Ptr<Socket> m_sender;
};

/// One end of the link: its buffer and its rate.
Ptr<SimpleNetDevice>
LinkEnd(Ptr<Node> router, Ptr<SimpleChannel> channel, const std::string& buffer, uint64_t rate)
{
    auto device = CreateObject<SimpleNetDevice>();
    device->SetAttribute("PointToPointMode", BooleanValue(true));
    device->SetAttribute("DataRate", DataRateValue(DataRate(rate)));
    device->SetAddress(Mac48Address::Allocate());
    auto queue = CreateObject<DropTailQueue<Packet>>();
    queue->SetMaxSize(QueueSize(buffer));
    device->SetQueue(queue);
    device->SetChannel(channel);
    router->AddDevice(device);
    return device;
}

/// Connects a host to its router and returns the host's address.
Ipv4Address
Attach(Ptr<Node> host, Ptr<Node> router, double delay_ms, const std::string& network)
{
    PointToPointHelper wire;
    wire.DisableFlowControl();
    wire.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    wire.SetChannelAttribute("Delay", TimeValue(MicroSeconds(delay_ms * 1000)));
    wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
    auto devices = wire.Install(router, host);
    Ipv4AddressHelper addresses(network.c_str(), "255.255.255.252");
    auto interfaces = addresses.Assign(devices);
    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(host->GetObject<Ipv4>())->SetDefaultRoute(interfaces.GetAddress(0), 1);
    return interfaces.GetAddress(1);
}

void
SetRate(Ptr<SimpleNetDevice> device, uint64_t rate)
{
    device->SetAttribute("DataRate", DataRateValue(DataRate(rate)));
}

} // namespace

int
main(int argc, char* argv[])
{
    double seconds = 120;
    double link_ms = 0;
    uint64_t down = 2400000;
    uint64_t up = 196000;
    uint32_t delayedAck = 2;
    uint32_t tcpBuffer = 262144;
    bool timestamps = true;
    std::string downBuffer = "30000B";
    std::string upBuffer = "30000B";
    std::string far = "5";
    std::string flowsText = "D:0:0:0:0:0:TcpLinuxReno;U:0:0:0:0:0:TcpLinuxReno";
    std::string changes;
    std::string out = ".";
    uint32_t seed = 1;

    CommandLine command(__FILE__);
    command.AddValue("T", "duration, s", seconds);
    command.AddValue("tp", "propagation delay of the link, ms", link_ms);
    command.AddValue("cd", "rate of the downlink, bit/s", down);
    command.AddValue("cu", "rate of the uplink, bit/s", up);
    command.AddValue("bd", "buffer of the downlink, as 30000B or 20p", downBuffer);
    command.AddValue("bu", "buffer of the uplink", upBuffer);
    command.AddValue("delack", "segments for each delayed ACK", delayedAck);
    command.AddValue("btcp", "the hosts' TCP buffers, bytes", tcpBuffer);
    command.AddValue("timestamps", "TCP timestamps", timestamps);
    command.AddValue("far", "propagation delays between R1 and each far host, ms, ',' between them", far);
    command.AddValue("flows", "direction:start:stop:bytes:rate:far:transport, ';' between them", flowsText);
    command.AddValue("changes", "rates that change: second:D or U:bit/s, ';' between them", changes);
    command.AddValue("seed", "of what the transports do by chance", seed);
    command.AddValue("out", "directory of the files", out);
    command.Parse(argc, argv);

    RngSeedManager::SetSeed(seed);
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(timestamps ? 1448 : 1460));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(tcpBuffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(tcpBuffer));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delayedAck));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(timestamps));

    auto plans = ParseFlows(flowsText);
    auto delays = Split(far, ',');
    NodeContainer routers(2);
    NodeContainer homes(plans.size());
    NodeContainer fars(delays.size());
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();
    auto r1 = routers.Get(0);
    auto r2 = routers.Get(1);

    auto channel = CreateObject<SimpleChannel>();
    channel->SetAttribute("Delay", TimeValue(MicroSeconds(link_ms * 1000)));
    auto r1End = LinkEnd(r1, channel, downBuffer, down);
    auto r2End = LinkEnd(r2, channel, upBuffer, up);
    Ipv4AddressHelper linkAddresses("100.64.0.0", "255.255.255.252");
    auto link = linkAddresses.Assign(NetDeviceContainer(NetDeviceContainer(r1End), NetDeviceContainer(r2End)));
    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(r2->GetObject<Ipv4>())->SetDefaultRoute(link.GetAddress(0), link.Get(1).second);
    routing.GetStaticRouting(r1->GetObject<Ipv4>())
        ->AddNetworkRouteTo("192.168.0.0", "255.255.0.0", link.GetAddress(1), link.Get(0).second);

    std::vector<Ipv4Address> farAddresses;
    for (uint32_t i = 0; i < fars.GetN(); i++)
    {
        auto network = "203.0.113." + std::to_string(4 * i);
        farAddresses.push_back(Attach(fars.Get(i), r1, std::stod(delays[i]), network));
    }
    std::vector<std::unique_ptr<Flow>> flows;
    for (uint32_t i = 0; i < plans.size(); i++)
    {
        const auto& plan = plans[i];
        NS_ABORT_MSG_IF(plan.far >= fars.GetN(), "no such far host: " << plan.far);
        Attach(homes.Get(i), r2, 0.1, "192.168.1." + std::to_string(4 * i));
        if (plan.transport != "udp")
        {
            auto algorithm = TypeIdValue(TypeId::LookupByName("ns3::" + plan.transport));
            homes.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", algorithm);
            fars.Get(plan.far)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", algorithm);
        }
        flows.push_back(std::make_unique<Flow>(plan, homes.Get(i), fars.Get(plan.far), farAddresses[plan.far], i));
    }
    for (const auto& change : Split(changes, ';'))
    {
        auto cells = Split(change, ':');
        NS_ABORT_MSG_IF(cells.size() != 3, "a change has three fields: " << change);
        auto device = cells[1] == "U" ? r2End : r1End;
        Simulator::Schedule(Seconds(std::stod(cells[0])), &SetRate, device, std::stoull(cells[2]));
    }

    QueueLog upLog(out + "/queue_R2_up.csv", r2End->GetQueue());
    QueueLog downLog(out + "/queue_R1_down.csv", r1End->GetQueue());
    Taps taps(out, r2, link.Get(1).second, r2End->GetQueue());
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    auto* file = std::fopen((out + "/flows.csv").c_str(), "w");
    NS_ABORT_MSG_UNLESS(file, "cannot write into " << out);
    std::fputs("direction,transport,start_s,stop_s,received_bytes\n", file);
    for (const auto& flow : flows)
    {
        const auto& plan = flow->Plan();
        std::fprintf(file,
                     "%s,%s,%.3f,%.3f,%llu\n",
                     plan.up ? "U" : "D",
                     plan.transport.c_str(),
                     plan.start_s,
                     plan.stop_s,
                     static_cast<unsigned long long>(flow->Received()));
    }
    std::fclose(file);
    Simulator::Destroy();
    return 0;
}
