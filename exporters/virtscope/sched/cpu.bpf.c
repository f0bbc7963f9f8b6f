// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// (The kernel lets only programs of a licence that goes with the GPL read its structures; Apache-2.0 is none to it.)
// Who waited for a CPU while who ran on it: seconds by pair of cgroups, summed in the kernel.
//
// One hook, sched_switch, and nothing per task. The kernel itself keeps since when a task is queued
// (sched_info.last_queued, the source of schedstat's run_delay). Each CPU keeps a short log of which cgroup ran until
// when, neighbours in time with the same cgroup merged; when a task gets its CPU, the log is read backwards as far as
// its wait reaches. There is no set of waiting tasks that could drift: a missed event costs that event.
//
// The types are those few fields that are read, relocated at load (CO-RE): no vmlinux.h, no kernel headers.
// `make bpf` compiles it to cpu.bpf.o; cpu.py loads that, and has the layout of what is read from outside.

#include "kernel.bpf.h"

struct sched_info { u64 run_delay, last_arrival, last_queued; } CO_RE;
struct rq { u64 clock; struct sched_info rq_sched_info; } CO_RE;
struct cfs_rq { u64 throttled_clock_self_time; struct rq *rq; } CO_RE;      // Linux 6.6 and newer
struct cfs_rq___pelt { u64 throttled_clock_pelt_time; } CO_RE;              // 5.19 to 6.5
struct cfs_rq___task { u64 throttled_clock_task_time; } CO_RE;              // before
struct sched_entity { u64 sum_exec_runtime; struct cfs_rq *cfs_rq; } CO_RE;
struct task_struct {
	int pid;
	struct sched_info sched_info;
	struct sched_entity se;
	struct css_set *cgroups;
} CO_RE;

#define RUNS 128         // power of two; longer waits: the rest goes to OTHER
#define SLOTS 4          // cgroups that ran, summed up before the map is touched
// Names that no cgroup has: the root's id is 1, others are larger.
#define IDLE 0ull                 // nobody ran: the time to wake an idle CPU up
#define OTHER (~0ull)             // not known: the log is too short, or a map is full
#define THROTTLED (~0ull - 1)     // its own cap, cpu.max, held it
#define STOLEN (~0ull - 2)        // a hypervisor below had the CPU

// The version of cgroups, 2, or 1 for its controller cpu. Set before loading; alone in its section, which is set whole.
const volatile u32 version = 2;

struct run { u64 end, cgroup; };
struct sum { u64 ns, cgroup; };
struct cpu {
	u64 switches;
	u64 waited;               // what was charged, ns
	u64 run_delay;            // what the kernel counted in all, ns: coverage is waited / run_delay
	u64 lost;                 // ns that found no room in the map of pairs
	u64 before;               // run_delay when the program was loaded
	u64 exec_pid, exec;       // of the task that runs: what it had run when it began
	struct sum sum[SLOTS];
	u64 head;
	struct run run[RUNS];
};
struct pair { u64 waiting, running; };
struct value { u64 ns, waits; };
struct throttle { u64 total, from, to, who; };

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
	__type(value, struct value);
} pairs SEC(".maps");

// A cgroup's waits that found no room among the pairs, whatever ran meanwhile.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, u64);
	__type(value, struct value);
} rests SEC(".maps");

// The least recently used entry makes room: a user who makes many capped cgroups can't keep others out.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, u64);
	__type(value, struct throttle);
} throttles SEC(".maps");

static __always_inline u64 cgroup_of(struct task_struct *task)
{
	struct css_set *cgroups = task->cgroups;

	if (version == 1) {
		u64 at = CONTROLLER_OFFSET(cgroups, cpu_cgrp_id);
		struct cgroup_subsys_state *cpu = *(struct cgroup_subsys_state **)((void *)cgroups + at);

		return cpu->cgroup->kn->id;
	}
	return cgroups->dfl_cgrp->kn->id;
}

// For a pair that found no room. Not static: so the verifier follows it once, not from each place that charges.
__attribute__((noinline)) int charge_rest(u64 waiting, u64 ns, u64 waits)
{
	struct value *v = bpf_map_lookup_elem(&rests, &waiting);

	if (v) {
		v->ns += ns;
		v->waits += waits;
	} else {
		struct value first = {ns, waits};
		bpf_map_update_elem(&rests, &waiting, &first, BPF_ANY);
	}
	return 0;
}

// Adds to a pair; `waits` is 1 for one of the pairs of each wait, so that each is counted once.
static __always_inline void charge(struct cpu *c, u64 waiting, u64 running, u64 ns, u64 waits)
{
	struct pair key = {waiting, running};
	struct value *v = bpf_map_lookup_elem(&pairs, &key);

	if (v) {
		v->ns += ns;
		v->waits += waits;
	} else {
		struct value first = {ns, waits};
		// Where another CPU has put the pair in meanwhile, this sets what is this CPU's, which is nothing yet.
		if (bpf_map_update_elem(&pairs, &key, &first, BPF_ANY)) {
			c->lost += ns;
			charge_rest(waiting, ns, waits);
		}
	}
}

static __always_inline int sum_up(struct cpu *c, u64 who, u64 ns)
{
	u32 k;

#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		if (c->sum[k].ns && c->sum[k].cgroup != who)
			continue;
		c->sum[k].cgroup = who;
		c->sum[k].ns += ns;
		return 1;
	}
	return 0;
}

// How long this CPU's queue of a cgroup was held by its cap or by one above it, in all, ns.
static __always_inline u64 held(struct cfs_rq *queue)
{
	struct cfs_rq___pelt *pelt = (void *)queue;
	struct cfs_rq___task *task = (void *)queue;

	if (bpf_core_field_exists(queue->throttled_clock_self_time))
		return queue->throttled_clock_self_time;
	if (bpf_core_field_exists(pelt->throttled_clock_pelt_time))
		return pelt->throttled_clock_pelt_time;
	if (bpf_core_field_exists(task->throttled_clock_task_time))
		return task->throttled_clock_task_time;
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	// The clock that last_queued is of. By way of the task: the symbol runqueues isn't in every kernel's kallsyms.
	struct rq *rq = next->se.cfs_rq->rq;
	u64 now = rq->clock, ran, queued, waiting, total, begin, end, left, once = 1;
	u32 zero = 0, i, k;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &zero);

	if (!c)
		return 0;
	if (bpf_core_field_exists(struct rq, rq_sched_info)) {      // CONFIG_SCHEDSTATS
		if (!c->switches)
			c->before = rq->rq_sched_info.run_delay;
		c->run_delay = rq->rq_sched_info.run_delay - c->before;
	}
	c->switches++;

	// Who ran until now.
	ran = prev->pid ? cgroup_of(prev) : IDLE;
	if (prev->pid && c->exec_pid == prev->pid) {
		// Run by the wall clock and not by the task's own: stolen (or interrupts, where the kernel counts those
		// apart). It is put before what the task ran, as when it lay isn't known.
		u64 exec = prev->se.sum_exec_runtime - c->exec;
		i = c->head & (RUNS - 1);
		begin = c->run[i].end;
		if (begin && now > begin && exec < now - begin && now - begin - exec > 10000) {
			c->head++;
			i = c->head & (RUNS - 1);
			c->run[i].end = now - exec;
			c->run[i].cgroup = STOLEN;
		}
	}
	i = c->head & (RUNS - 1);
	if (c->run[i].cgroup != ran || !c->run[i].end) {
		c->head++;
		i = c->head & (RUNS - 1);
		c->run[i].cgroup = ran;
	}
	c->run[i].end = now;

	c->exec_pid = next->pid;
	c->exec = next->se.sum_exec_runtime;
	if (!next->pid)
		return 0;
	queued = next->sched_info.last_queued;
	if (!queued || queued >= now)
		return 0;
	c->waited += now - queued;
	waiting = cgroup_of(next);

	// Its own cap: the kernel counts how long this cgroup's queue on this CPU was held. What is new of it began when
	// the first task that sees it was queued.
	total = held(next->se.cfs_rq);
	if (total) {
		struct throttle *t = bpf_map_lookup_elem(&throttles, &waiting);
		if (!t || !t->total) {
			// How much of it is new isn't known: nobody else is charged for this wait, nor for those during it.
			struct throttle first = {total, queued, now, OTHER};
			bpf_map_update_elem(&throttles, &waiting, &first, BPF_ANY);
			charge(c, waiting, OTHER, now - queued, once);
			return 0;
		}
		if (t->total != total) {
			t->from = queued;
			t->to = queued + (total - t->total);
			if (t->to > now)
				t->to = now;
			t->total = total;
			t->who = THROTTLED;
		}
		if (queued >= t->from && queued < t->to) {
			charge(c, waiting, t->who, t->to - queued, once);
			once = 0;
			queued = t->to;
			if (queued >= now)
				return 0;
		}
	}

	// The sums lie in the map, not on the stack: so the verifier needn't follow every way to fill them.
	for (k = 0; k < SLOTS; k++)
		c->sum[k].ns = 0;
	end = now;
	for (k = 0; k < RUNS - 1; k++) {
		struct run *r = &c->run[(c->head - k) & (RUNS - 1)];
		begin = c->run[(c->head - k - 1) & (RUNS - 1)].end;
		if (begin > end || !begin)
			break;            // the log begins here
		if (begin < queued)
			begin = queued;
		left = end - begin;
		end = begin;
		if (left && !sum_up(c, r->cgroup, left))
			charge(c, waiting, r->cgroup, left, 0);
		if (end <= queued)
			break;
	}
	for (k = 0; k < SLOTS; k++) {
		if (c->sum[k].ns) {
			charge(c, waiting, c->sum[k].cgroup, c->sum[k].ns, once);
			once = 0;
		}
	}
	if (end > queued)
		charge(c, waiting, OTHER, end - queued, once);
	return 0;
}
