/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf/queue/queue.bpf.c as a program of this machine: its events come from standard input, and what it keeps goes
 * to standard output. With a clock and qdiscs that the test sets, every figure is known beforehand. The
 * tracepoints themselves and the verifier are the business of the other tests here. Commands, one a line:
 *
 *   kernel MINOR                             which drop reasons there are (bpf_core_read.h)
 *   time NS                                  the clock
 *   qdisc Q KIND PARENT FLAGS                qdisc Q (0…7) is a new one, empty
 *   device D IFINDEX NETNS                   device D (0…7)
 *   register DIRECTION IFINDEX NETNS FLAGS   as the agent does
 *   holds Q BYTES PACKETS                    what stands in it
 *   has_sent Q BYTES PACKETS                 what it has sent, ever
 *   enqueue Q D BYTES MARK                   the tracepoints, with
 *   dequeue Q D PACKETS [BYTES MARK]…        the arguments that they have
 *   drop D BYTES MARK REASON                 D −1: the packet has no device
 *   show DIRECTION                           state, ring, histograms, departures
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <linux/bpf.h>

#include "common/kernel.h"
/* Assembly of the BPF machine. */
#define is_null(pointer) (!(pointer))
#include "queue/queue.bpf.c"

#define THINGS 8
#define CHAIN  80
#define MAPS   8

__u64 native_now;
__u32 native_kernel = 14;

void *native_memory(const void *map, size_t bytes)
{
	static struct {
		const void *map;
		void *memory;
	} maps[MAPS];

	for (int i = 0; i < MAPS; i++) {
		if (maps[i].map == map)
			return maps[i].memory;
		if (!maps[i].map) {
			maps[i].map = map;
			maps[i].memory = calloc(1, bytes);
			return maps[i].memory;
		}
	}
	abort();
}

static struct Qdisc qdiscs[THINGS];
static struct Qdisc_ops kinds[THINGS];
static struct net nets[THINGS];
static struct net_device devices[THINGS];
static struct netdev_queue txqs[THINGS];

static void fail(const char *line)
{
	fprintf(stderr, "harness: cannot read: %s\n", line);
	exit(1);
}

/* The next number of a line; `0x…` is hexadecimal. */
static __s64 number(char **rest, const char *line)
{
	char *end;
	__s64 value = strtoll(*rest, &end, 0);

	if (end == *rest)
		fail(line);
	*rest = end;
	return value;
}

static void fill(struct sk_buff *skb, __u32 bytes, __u32 mark)
{
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;

	memset(skb, 0, sizeof(*skb));
	cb->pkt_len = bytes;
	memcpy(&cb->data[16], &mark, sizeof(mark));
}

static void show_totals(const char *name, const __u64 pair[PENDULUM_QUEUE_CLASSES])
{
	printf(" %s.data %" PRIu64 " %s.ack %" PRIu64, name, (uint64_t)pair[0], name, (uint64_t)pair[1]);
}

#define SHOW(of, field) printf(" " #field " %" PRIu64, (uint64_t)(of)->field)

static void show_common(const struct pendulum_queue_totals *totals, const struct pendulum_queue_level *level,
			const __u32 sojourn_max_us[PENDULUM_QUEUE_CLASSES])
{
	show_totals("enqueued_bytes", totals->enqueued_bytes);
	show_totals("enqueued_packets", totals->enqueued_packets);
	show_totals("dequeued_bytes", totals->dequeued_bytes);
	show_totals("dequeued_packets", totals->dequeued_packets);
	show_totals("dropped_bytes", totals->dropped_bytes);
	show_totals("dropped_packets", totals->dropped_packets);
	show_totals("sojourn_sum_us", totals->sojourn_sum_us);
	show_totals("sojourn_packets", totals->sojourn_packets);
	SHOW(level, bytes);
	SHOW(level, packets);
	SHOW(level, ack_bytes);
	SHOW(level, ack_packets);
	printf(" sojourn_max_us.data %u sojourn_max_us.ack %u", sojourn_max_us[0], sojourn_max_us[1]);
}

#define SHOW_INTEGRALS(of)                                                                                   \
	do {                                                                                                 \
		SHOW(of, last_ns);                                                                           \
		SHOW(of, bytes_ns);                                                                          \
		SHOW(of, ack_bytes_ns);                                                                      \
		SHOW(of, packets_ns);                                                                        \
		SHOW(of, min_bytes);                                                                         \
		SHOW(of, max_bytes);                                                                         \
		SHOW(of, min_packets);                                                                       \
		SHOW(of, max_packets);                                                                       \
	} while (0)

static void show_queue(const struct pendulum_queue *queue)
{
	printf("queue number %" PRIu64, (uint64_t)queue->bucket);
	SHOW_INTEGRALS(queue);
	show_common(&queue->totals, &queue->level, queue->sojourn_max_us);
	SHOW(queue, flags);
	SHOW(queue, sent_bytes);
	SHOW(queue, sent_packets);
	for (int i = 0; i < PENDULUM_DROPS; i++)
		printf(" drops.%d %" PRIu64, i, (uint64_t)queue->drops[i]);
	for (int i = 0; i < PENDULUM_QUEUE_EVENTS; i++)
		printf(" events.%d %" PRIu64, i, (uint64_t)queue->events[i]);
	putchar('\n');
}

static void show_ring(__u32 direction)
{
	for (__u32 place = 0; place < PENDULUM_RING_BUCKETS; place++) {
		__u32 index = direction * PENDULUM_RING_BUCKETS + place;
		const struct pendulum_bucket *bucket = bpf_map_lookup_elem(&history, &index);

		if (!bucket->number)
			continue;
		printf("bucket place %u number %" PRIu64, place, (uint64_t)bucket->number);
		SHOW_INTEGRALS(bucket);
		show_common(&bucket->totals, &bucket->last, bucket->sojourn_max_us);
		putchar('\n');
	}
}

static void show(__u32 direction)
{
	const struct pendulum_queue *queue = bpf_map_lookup_elem(&queues, &direction);

	show_queue(queue);
	show_ring(direction);
	for (__u32 class = 0; class < PENDULUM_QUEUE_CLASSES; class ++) {
		__u32 index = direction * PENDULUM_QUEUE_CLASSES + class;
		const struct pendulum_sojourn *sojourn = bpf_map_lookup_elem(&sojourns, &index);

		printf("sojourns class %u", class);
		SHOW(sojourn, sum_us);
		for (int i = 0; i < PENDULUM_TIME_SLOTS; i++)
			printf(" slots.%d %" PRIu64, i, (uint64_t)sojourn->slots[i]);
		putchar('\n');
	}
	for (__u32 index = 0; index < PENDULUM_QUEUE_CLASSES * PENDULUM_DEPARTURES; index++) {
		const struct pendulum_departure *departure = bpf_map_lookup_elem(&departures, &index);

		if (departure->passage)
			printf("departure index %u mark %" PRIu64 " left %" PRIu64 "\n", index,
			       (uint64_t)(departure->passage >> 32),
			       (uint64_t)(departure->passage & 0xffffffff));
	}
	puts("end");
}

static void make_qdisc(int at, char *rest, const char *line)
{
	char kind[16] = {};
	int length;

	if (sscanf(rest, " %15s%n", kind, &length) != 1)
		fail(line);
	rest += length;
	memset(&qdiscs[at], 0, sizeof(qdiscs[at]));
	memcpy(kinds[at].id, kind, sizeof(kind));
	qdiscs[at].ops = &kinds[at];
	qdiscs[at].parent = number(&rest, line);
	qdiscs[at].flags = number(&rest, line);
}

static void dequeue(const struct Qdisc *q, const struct netdev_queue *txq, char *rest, const char *line)
{
	static struct sk_buff chain[CHAIN];
	int packets = number(&rest, line), length = 0;

	while (length < CHAIN && strchr(rest, ' ')) {
		__u32 bytes = number(&rest, line);

		fill(&chain[length], bytes, number(&rest, line));
		if (length)
			chain[length - 1].next = &chain[length];
		length++;
	}
	pendulum_dequeue(q, txq, packets, length ? &chain[0] : NULL);
}

static void drop(char *rest, const char *line)
{
	int device = number(&rest, line);
	__u32 bytes = number(&rest, line), mark = number(&rest, line);
	struct sk_buff skb;

	fill(&skb, bytes, mark);
	skb.dev = device < 0 ? NULL : &devices[device % THINGS];
	pendulum_drop(&skb, NULL, number(&rest, line));
}

static void obey(char *line)
{
	char verb[16], *rest = line;
	int length, at;

	if (sscanf(line, "%15s%n", verb, &length) != 1)
		fail(line);
	rest += length;
	if (strcmp(verb, "kernel") == 0) {
		native_kernel = number(&rest, line);
		return;
	}
	if (strcmp(verb, "time") == 0) {
		native_now = number(&rest, line);
		return;
	}
	if (strcmp(verb, "drop") == 0)
		return drop(rest, line);
	at = number(&rest, line) % THINGS;
	if (strcmp(verb, "show") == 0)
		return show(at);
	if (strcmp(verb, "qdisc") == 0)
		return make_qdisc(at, rest, line);
	if (strcmp(verb, "device") == 0) {
		devices[at].ifindex = number(&rest, line);
		nets[at].ns.inum = number(&rest, line);
		devices[at].nd_net.net = &nets[at];
		txqs[at].dev = &devices[at];
	} else if (strcmp(verb, "register") == 0) {
		__u32 direction = at;
		struct pendulum_queue_device *device = bpf_map_lookup_elem(&queue_devices, &direction);

		memset(device, 0, sizeof(*device));
		device->ifindex = number(&rest, line);
		device->netns = number(&rest, line);
		device->flags = number(&rest, line);
	} else if (strcmp(verb, "holds") == 0) {
		qdiscs[at].qstats.backlog = number(&rest, line);
		qdiscs[at].q.qlen = number(&rest, line);
	} else if (strcmp(verb, "has_sent") == 0) {
		__u64 bytes = number(&rest, line), packets = number(&rest, line);

		memcpy(&qdiscs[at].bstats.bytes, &bytes, sizeof(bytes));
		memcpy(&qdiscs[at].bstats.packets, &packets, sizeof(packets));
	} else if (strcmp(verb, "enqueue") == 0) {
		int device = number(&rest, line) % THINGS;
		__u32 bytes = number(&rest, line);
		struct sk_buff skb;

		fill(&skb, bytes, number(&rest, line));
		pendulum_enqueue(&qdiscs[at], &txqs[device], &skb);
	} else if (strcmp(verb, "dequeue") == 0) {
		int device = number(&rest, line) % THINGS;

		dequeue(&qdiscs[at], &txqs[device], rest, line);
	} else {
		fail(line);
	}
}

int main(void)
{
	static char line[65536];

	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
