// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Whom interrupts and softirqs take CPU time from, and whose packets or disk requests they handle: seconds by victim
// and culprit, summed in the kernel.
//
// The victim is the cgroup of the task that was running. An idle CPU and ksoftirqd are no victims. Hard interrupts
// interrupt softirqs: their time is subtracted, so each nanosecond is charged once.
//
// The time of a softirq, or of a hard interrupt, is divided by the number of packets and disk requests that it handled,
// whatever each took:
// - A packet belongs to the cgroup of the task that queued it to a virtual device (lo, veth, tap, bridges). `packets`
//   carries that by the packet's address to the softirq that receives it, also on another CPU (RPS). Packets that a
//   softirq sends on (forwarded ones, TCP's acknowledgements) belong to the owner of the packet received before.
// - A packet that no known task sent, as from a NIC, belongs to the container or guest behind the virtual device that
//   it is forwarded to. `devices` has these: the host's end of a veth, learned when a task in another network namespace
//   than the root's sends through its peer, and taps, learned when QEMU or vhost writes to them.
// - A disk request belongs to the cgroup that the kernel charges for it, which in version 2 takes the controller io.
// Anything else is the host's. So are: packets from a NIC to a task in the root's network namespace, to macvlan, ipvlan
// and SR-IOV devices, packets that XDP or tc redirects and those completed after transmission; a device's first packets,
// until its container has sent. A packet that is copied (flooded by a bridge) belongs to nobody known.
//
// Not seen: on x86, the local timer and interprocessor interrupts, which call no irq_handler; threaded interrupts and
// NAPI threads, which are tasks; work before and after the handlers. PREEMPT_RT runs softirqs in tasks that are
// preempted meanwhile: there they take too long.
//
// The types are those few fields that are read, relocated at load (CO-RE). `make bpf` compiles it to irq.bpf.o.

#include "kernel.bpf.h"

struct net;
struct nsproxy { struct net *net_ns; } CO_RE;
struct task_struct { struct nsproxy *nsproxy; } CO_RE;
struct device { struct device *parent; } CO_RE;
struct rtnl_link_ops { const char *kind; } CO_RE;
typedef struct { struct net *net; } CO_RE possible_net_t;
struct net_device {
	int ifindex;
	struct device dev;
	possible_net_t nd_net;
	struct rtnl_link_ops *rtnl_link_ops;
} CO_RE;
struct sk_buff { struct net_device *dev; } CO_RE;
struct blkcg { struct cgroup_subsys_state css; } CO_RE;
struct blkcg_gq { struct blkcg *blkcg; } CO_RE;
struct bio { struct blkcg_gq *bi_blkg; } CO_RE;
struct request { struct bio *bio; } CO_RE;

#define PF_KTHREAD 0x00200000      // include/linux/sched.h

#define VECTORS 10       // of softirqs, include/linux/interrupt.h
#define NET_RX 3
#define HARD VECTORS
#define SLOTS 8          // owners of what one softirq handles
#define PACKETS 8192     // power of two
// Names that no cgroup has: the root's id is 1, others are larger.
#define HOST 0ull
#define NOBODY 0ull               // as a victim
#define OTHER (~0ull)             // too many owners, or a map is full
#define ROOT 1ull
#define BLKIO (1ull << 62)        // flag: the id is of version 1's controller blkio, whose ids are others

// The version of cgroups, 2, or 1 for its controller cpu. Set before loading; alone in its section, which is set whole.
const volatile u32 version = 2;

// The root's network namespace, which kernel threads are in; 0: none was interrupted yet.
u64 root_net = 0;

struct owner { u64 id, count; };
struct owners { u64 count, host, rest; struct owner owner[SLOTS]; };      // count: of all
struct cpu {
	u64 ns[VECTORS + 1];      // by softirq, and of hard interrupts
	u64 charged;              // of that, ns taken from tasks
	u64 lost;                 // of that, ns that found no room in the map
	u64 softirq, hard;        // since when; 0: not in one
	u64 inside;               // ns of hard interrupts within this softirq
	u64 owner;                // of the packet received last in this softirq
	u64 sender;               // of the packet that a task queued last on this CPU, until the next NET_RX
	u64 pointer;              // for number_of()
	struct owners softirq_owners, hard_owners;
};
struct pair { u64 victim, owner; };
// first: the device of its container, at its first hop. softirq: the one that has received it; 0: none yet.
struct packet { u64 number, owner, first, softirq; };
struct learned { u64 owner, index; };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct pair);
	__type(value, u64);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PACKETS);
	__type(key, u32);
	__type(value, struct packet);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct learned);
} devices SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

// --- Time ------------------------------------------------------------------------------------------------------------

// The cgroup of the interrupted task.
static __always_inline u64 victim(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	char name[16] __attribute__((aligned(8))) = {};

	if (current_flags() & PF_KTHREAD) {
		if (!root_net)
			root_net = (u64)BPF_CORE_READ(task, nsproxy, net_ns);
		if (!(u32)bpf_get_current_pid_tgid())
			return NOBODY;
		bpf_get_current_comm(name, sizeof(name));
		if (!__builtin_memcmp(name, "ksoftirq", 8))
			return NOBODY;
	}
	return CURRENT_CGROUP(version, cpu_cgrp_id);
}

// Returns the ns that found no room. Not static: so the verifier follows it once.
__attribute__((noinline)) u64 charge(u64 victim, u64 owner, u64 ns)
{
	struct pair key = {victim, owner};
	u64 *sum = bpf_map_lookup_elem(&pairs, &key);

	if (!sum) {
		if (!bpf_map_update_elem(&pairs, &key, &ns, BPF_ANY))
			return 0;
		key.owner = OTHER;
		sum = bpf_map_lookup_elem(&pairs, &key);
		if (!sum)
			return bpf_map_update_elem(&pairs, &key, &ns, BPF_ANY) ? ns : 0;
	}
	*sum += ns;
	return 0;
}

static __always_inline void count(struct owners *owners, u64 id)
{
	u32 k;

	owners->count++;
	if (id == HOST) {
		owners->host++;
		return;
	}
#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		struct owner *owner = &owners->owner[k];

		if (owner->count && owner->id != id)
			continue;
		owner->id = id;
		owner->count++;
		return;
	}
	owners->rest++;
}

// Charges the owners by their counts, which begin again.
static __always_inline void divide(struct cpu *c, struct owners *owners, u64 ns)
{
	u64 from = victim(), left = ns, count = owners->count, each;
	u32 k;

	if (from != NOBODY)
		c->charged += ns;
#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		struct owner *owner = &owners->owner[k];

		if (!owner->count || !count)
			break;
		each = owner->count == count ? left : left * owner->count / count;
		left -= each;
		count -= owner->count;
		owner->count = 0;
		if (from != NOBODY)
			c->lost += charge(from, owner->id, each);
	}
	if (from != NOBODY && left) {
		each = count ? left * owners->rest / count : 0;
		if (each)
			c->lost += charge(from, OTHER, each);
		if (left - each)
			c->lost += charge(from, HOST, left - each);
	}
	owners->count = owners->host = owners->rest = 0;
}

SEC("tp_btf/irq_handler_entry")
int on_irq_entry(u64 *ctx)
{
	struct cpu *c = this_cpu();

	if (c)
		c->hard = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int on_irq_exit(u64 *ctx)
{
	struct cpu *c = this_cpu();
	u64 ns;

	if (!c || !c->hard)
		return 0;
	ns = bpf_ktime_get_ns() - c->hard;
	c->hard = 0;
	c->ns[HARD] += ns;
	c->inside += ns;
	divide(c, &c->hard_owners, ns);
	return 0;
}

SEC("tp_btf/softirq_entry")
int on_softirq_entry(u64 *ctx)
{
	struct cpu *c = this_cpu();

	if (c) {
		c->inside = 0;
		c->owner = HOST;
		c->softirq = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int on_softirq_exit(u64 *ctx)
{
	struct cpu *c = this_cpu();
	u32 vector = ctx[0];
	u64 ns;

	if (!c || !c->softirq || vector >= VECTORS)
		return 0;
	ns = bpf_ktime_get_ns() - c->softirq;
	c->softirq = 0;
	ns = ns > c->inside ? ns - c->inside : 0;
	c->ns[vector] += ns;
	if (vector == NET_RX) {
		// It may only have passed packets on to other CPUs (RPS).
		if (!c->softirq_owners.count && c->sender != HOST)
			count(&c->softirq_owners, c->sender);
		c->sender = HOST;
	}
	divide(c, &c->softirq_owners, ns);
	return 0;
}

// --- Packets ---------------------------------------------------------------------------------------------------------

// As number_at(), but without a call: what is stored in a map is a number.
static __always_inline u64 number_of(struct cpu *c, void *pointer)
{
	*(volatile u64 *)&c->pointer = (u64)pointer;
	return *(volatile u64 *)&c->pointer;
}

static __always_inline struct packet *packet_at(u64 number)
{
	u32 place = (number * 0x9e3779b97f4a7c15ull) >> 51 & (PACKETS - 1);

	return bpf_map_lookup_elem(&packets, &place);
}

static __always_inline u64 learned_owner(struct net_device *device, u64 number)
{
	struct learned *learned = bpf_map_lookup_elem(&devices, &number);

	return learned && learned->index == device->ifindex ? learned->owner : HOST;
}

static __always_inline void learn(struct net_device *device, u64 number, u64 owner)
{
	struct learned now = {owner, device->ifindex};

	if (learned_owner(device, number) != owner)
		bpf_map_update_elem(&devices, &number, &now, BPF_ANY);
}

static __always_inline u64 current_owner(void)
{
	u64 id = CURRENT_CGROUP(version, cpu_cgrp_id);

	return id == ROOT ? HOST : id;
}

static __always_inline int is_tun(struct net_device *device)
{
	char kind[4] __attribute__((aligned(4))) = {};

	if (device->rtnl_link_ops)
		bpf_probe_read_kernel(kind, sizeof(kind), device->rtnl_link_ops->kind);
	return !__builtin_memcmp(kind, "tun", 4);
}

// A packet is about to be sent through a device.
SEC("tp_btf/net_dev_queue")
int on_send(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *device = skb->dev;
	struct cpu *c = this_cpu();
	u64 number, at, owner, first = 0;
	struct packet *p;

	if (!c)
		return 0;
	number = number_of(c, skb);
	at = number_of(c, device);
	p = packet_at(number);
	if (!p)
		return 0;
	if (device->dev.parent) {      // a NIC: it doesn't come back
		if (p->number == number)
			p->number = 0;
		if (!c->softirq)
			c->sender = HOST;
		return 0;
	}
	if (c->softirq) {
		// NICs receive packets in batches: it may not be the one received last.
		owner = p->number == number && p->softirq == c->softirq ? p->owner : c->owner;
	} else {
		owner = c->sender = current_owner();
		if (root_net && bpf_core_field_exists(device->nd_net) && number_of(c, device->nd_net.net) != root_net)
			first = at;
	}
	if (owner == HOST) {
		owner = learned_owner(device, at);
		if (owner != HOST && c->softirq) {
			c->owner = owner;
			if (c->softirq_owners.host) {      // the packet was received as the host's
				c->softirq_owners.host--;
				c->softirq_owners.count--;
			}
			count(&c->softirq_owners, owner);
		}
	}
	p->number = number;
	p->owner = owner;
	p->first = first;
	p->softirq = 0;
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int on_receive(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *device = skb->dev;
	struct cpu *c = this_cpu();
	u64 number, at, known, again, owner = HOST;
	struct packet *p;

	if (!c)
		return 0;
	number = number_of(c, skb);
	at = number_of(c, device);
	p = packet_at(number);
	if (!p)
		return 0;
	if (!c->softirq) {
		// In a task: of a tap, QEMU or vhost, which has just written it.
		if (is_tun(device))
			learn(device, at, current_owner());
		return 0;
	}
	// A bridge has a packet received again, as its own.
	again = !device->dev.parent && p->number == number && p->softirq == c->softirq;
	if (!device->dev.parent) {
		known = p->number == number && (again || !p->softirq);
		if (known)
			owner = p->owner;
		if (owner == HOST)
			owner = learned_owner(device, at);
		else if (known && p->first && p->first != at)
			learn(device, at, owner);
	}
	p->number = number;
	p->owner = owner;
	p->first = 0;
	p->softirq = c->softirq;
	c->owner = owner;
	if (!again)
		count(&c->softirq_owners, owner);
	return 0;
}

// --- Disk requests ---------------------------------------------------------------------------------------------------

SEC("tp_btf/block_rq_complete")
int on_complete(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	struct bio *bio = request->bio;
	struct blkcg_gq *group = bio ? bio->bi_blkg : 0;
	struct cpu *c = this_cpu();
	u64 owner = HOST;

	if (!c || (!c->hard && !c->softirq))
		return 0;
	if (group) {
		owner = group->blkcg->css.cgroup->kn->id;
		owner = owner == ROOT ? HOST : version == 1 ? owner | BLKIO : owner;
	}
	if (c->hard)
		count(&c->hard_owners, owner);
	else
		count(&c->softirq_owners, owner);
	return 0;
}
