// One simulated link with a known truth: the topology of paper 000 in ns-3 3.37, as captures and as what the routers' buffers held.
//
//     home hosts ── R2 ═══ link of two rates ═══ R1 ── far hosts
//               LAN    uplink's        downlink's
//                      buffer (R2)     buffer (R1)
//
// Both buffers count bytes or packets of IP, and drop the packet that comes, the oldest one ("head"), or are shared by flows and kept short
// ("fq_codel"). The link adds no framing, so that its rate is that of IP bytes.
// `score.py` builds and calls this program; `--PrintHelp` lists its parameters. Files that it writes into --out:
//
//   lan.pcap, wan.pcap                   the first 96 bytes of each packet at both sides of R2, link type "raw IP"; a packet of the uplink
//                                        is in lan.pcap when it comes to R2, in wan.pcap when its transmission begins
//   queue_R2_up.csv, queue_R1_down.csv   a row each 10 ms: the level at that moment; since the row before the lowest and the highest level, the
//                                        bytes that left, those of packets with data, and how many packets were dropped
//   mean_R2_up.csv, mean_R1_down.csv     the level's mean over each millisecond, a row each
//   flows.csv                            what each flow's receiver got
//
// Times are seconds of the simulation; in the captures 1,700,000,000 s later.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/queue.h"
#include "ns3/simple-channel.h"
#include "ns3/simple-net-device.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
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

/// A buffer at one end of the link.
class LinkBuffer : public Queue<Packet>
{
  public:
    LinkBuffer(const std::string& discipline, const std::string& size)
        : m_headDrop(discipline == "head"),
          m_fair(discipline == "fq_codel")
    {
        NS_ABORT_MSG_UNLESS(m_headDrop || m_fair || discipline == "tail", "no such discipline: " << discipline);
        SetMaxSize(QueueSize(size));
    }

    /// What is taken out now is dropped and not sent.
    bool IsDropping() const
    {
        return m_dropping;
    }

    bool Enqueue(Ptr<Packet> packet) override
    {
        while (m_headDrop && !IsEmpty() && GetCurrentSize() + packet > GetMaxSize())
        {
            Discard(GetContainer().begin());
        }
        Container::iterator at;
        if (!DoEnqueue(GetContainer().end(), packet, at))
        {
            return false;
        }
        if (m_fair)
        {
            auto [flow, isNew] = m_flows.try_emplace(Key(packet));
            flow->second.packets.push_back({at, Simulator::Now()});
            if (!flow->second.listed)
            {
                flow->second.listed = true;
                flow->second.deficit = FULL_BYTES;
                m_new.push_back(flow->first);
            }
        }
        return true;
    }

    Ptr<Packet> Dequeue() override
    {
        return m_fair ? DequeueFair() : DoDequeue(GetContainer().begin());
    }

    Ptr<Packet> Remove() override
    {
        return DoRemove(GetContainer().begin());
    }

    Ptr<const Packet> Peek() const override
    {
        return DoPeek(GetContainer().begin());
    }

  private:
    using Container = std::list<Ptr<Packet>>;

    static constexpr int64_t FULL_BYTES = 1514;

    /// One packet that waits.
    struct Waiting
    {
        Container::iterator at;
        Time since;
    };

    /// RFC 8289 and RFC 8290.
    struct SubQueue
    {
        std::deque<Waiting> packets;
        bool listed{false};
        int64_t deficit{0};
        Time aboveSince{0};
        Time dropNext{0};
        uint32_t count{0};
        bool dropping{false};
    };

    static uint64_t Key(Ptr<const Packet> packet)
    {
        uint8_t head[24] = {};
        packet->CopyData(head, sizeof head);
        uint64_t key = head[9];
        for (int i = 12; i < 24; i++)
        {
            key = key * 1099511628211ULL + head[i];
        }
        return key;
    }

    void Discard(Container::const_iterator at)
    {
        m_dropping = true;
        DoRemove(at);
        m_dropping = false;
    }

    Ptr<Packet> DequeueFair()
    {
        while (!m_new.empty() || !m_old.empty())
        {
            auto& list = m_new.empty() ? m_old : m_new;
            auto key = list.front();
            auto& flow = m_flows[key];
            if (flow.deficit <= 0)
            {
                flow.deficit += FULL_BYTES;
                list.pop_front();
                m_old.push_back(key);
                continue;
            }
            Control(flow);
            if (flow.packets.empty())
            {
                bool wasNew = &list == &m_new;
                list.pop_front();
                if (wasNew && !m_old.empty())
                {
                    m_old.push_back(key);
                }
                else
                {
                    flow.listed = false;
                }
                continue;
            }
            auto next = flow.packets.front();
            flow.packets.pop_front();
            flow.deficit -= (*next.at)->GetSize();
            return DoDequeue(next.at);
        }
        return nullptr;
    }

    /// Drops from the head of a flow that has been late for an interval.
    void Control(SubQueue& flow)
    {
        const Time target = MilliSeconds(5);
        const Time interval = MilliSeconds(100);
        auto now = Simulator::Now();
        while (!flow.packets.empty())
        {
            bool isShort = now - flow.packets.front().since < target || flow.packets.size() == 1;
            if (isShort)
            {
                flow.aboveSince = Time(0);
                flow.dropping = false;
                return;
            }
            if (flow.aboveSince.IsZero())
            {
                flow.aboveSince = now;
            }
            if (!flow.dropping)
            {
                if (now - flow.aboveSince < interval)
                {
                    return;
                }
                flow.dropping = true;
                flow.count = flow.count > 2 && now - flow.dropNext < 8 * interval ? flow.count - 2 : 1;
                flow.dropNext = now;
            }
            if (now < flow.dropNext)
            {
                return;
            }
            Discard(flow.packets.front().at);
            flow.packets.pop_front();
            flow.count += 1;
            flow.dropNext += interval / std::sqrt(flow.count);
        }
    }

    bool m_headDrop;
    bool m_fair;
    bool m_dropping{false};
    std::map<uint64_t, SubQueue> m_flows;
    std::list<uint64_t> m_new;
    std::list<uint64_t> m_old;
};

/// Writes what a router's buffer held: a row each 10 ms, and its mean each millisecond.
class QueueLog
{
  public:
    QueueLog(const std::string& out, const std::string& name, Ptr<LinkBuffer> queue)
        : m_file(std::fopen((out + "/queue_" + name + ".csv").c_str(), "w")),
          m_means(std::fopen((out + "/mean_" + name + ".csv").c_str(), "w")),
          m_queue(queue)
    {
        NS_ABORT_MSG_UNLESS(m_file && m_means, "cannot write the queue logs in " << out);
        std::fputs("mean_bytes\n", m_means);
        std::fputs("t_s,bytes,least_bytes,most_bytes,left_bytes,left_data_bytes,drops\n", m_file);
        queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&QueueLog::Enter, this));
        queue->TraceConnectWithoutContext("Dequeue", MakeCallback(&QueueLog::Leave, this));
        queue->TraceConnectWithoutContext("Drop", MakeCallback(&QueueLog::Drop, this));
        Write();
        Simulator::Schedule(MilliSeconds(1), &QueueLog::WriteMean, this);
    }

    ~QueueLog()
    {
        std::fclose(m_file);
        std::fclose(m_means);
    }

  private:
    void Enter(Ptr<const Packet> /* packet */)
    {
        Integrate();
        // A packet that goes on at once never waited: its departure is the next event of this moment.
        m_most = std::max(m_most, m_queue->GetNBytes());
    }

    void Leave(Ptr<const Packet> packet)
    {
        Integrate();
        m_least = std::min(m_least, m_queue->GetNBytes());
        if (m_queue->IsDropping())
        {
            return;
        }
        m_left += packet->GetSize();
        m_leftData += packet->GetSize() > ACK_BYTES ? packet->GetSize() : 0;
    }

    void Drop(Ptr<const Packet> /* packet */)
    {
        m_drops++;
    }

    /// The level since the event before was the one it had then.
    void Integrate()
    {
        auto now = Simulator::Now();
        m_integral += m_level * (now - m_since).GetSeconds();
        m_since = now;
        m_level = m_queue->GetNBytes();
    }

    void WriteMean()
    {
        Integrate();
        std::fprintf(m_means, "%.0f\n", m_integral * 1000);
        m_integral = 0;
        Simulator::Schedule(MilliSeconds(1), &QueueLog::WriteMean, this);
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
    std::FILE* m_means;
    Ptr<LinkBuffer> m_queue;
    Time m_since{0};
    double m_level{0};
    double m_integral{0};
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
    Taps(const std::string& out, Ptr<Node> r2, uint32_t wanInterface, Ptr<LinkBuffer> uplink)
        : m_lan(out + "/lan.pcap"),
          m_wan(out + "/wan.pcap"),
          m_wanInterface(wanInterface),
          m_uplink(uplink)
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
        if (!m_uplink->IsDropping())
        {
            m_wan.Write(packet);
        }
    }

    Capture m_lan;
    Capture m_wan;
    uint32_t m_wanInterface;
    Ptr<LinkBuffer> m_uplink;
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
LinkEnd(Ptr<Node> router, Ptr<SimpleChannel> channel, Ptr<LinkBuffer> buffer, uint64_t rate)
{
    auto device = CreateObject<SimpleNetDevice>();
    device->SetAttribute("PointToPointMode", BooleanValue(true));
    device->SetAttribute("DataRate", DataRateValue(DataRate(rate)));
    device->SetAddress(Mac48Address::Allocate());
    device->SetQueue(buffer);
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
    std::string downDiscipline = "tail";
    std::string upDiscipline = "tail";
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
    command.AddValue("qd", "discipline of the downlink's buffer: tail, head or fq_codel", downDiscipline);
    command.AddValue("qu", "discipline of the uplink's buffer", upDiscipline);
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
    auto downQueue = CreateObject<LinkBuffer>(downDiscipline, downBuffer);
    auto upQueue = CreateObject<LinkBuffer>(upDiscipline, upBuffer);
    auto r1End = LinkEnd(r1, channel, downQueue, down);
    auto r2End = LinkEnd(r2, channel, upQueue, up);
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

    QueueLog upLog(out, "R2_up", upQueue);
    QueueLog downLog(out, "R1_down", downQueue);
    Taps taps(out, r2, link.Get(1).second, upQueue);
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
