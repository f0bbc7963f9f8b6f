// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Whose pages were evicted while who reclaimed memory, and how long tasks reclaimed it themselves.
//
// A page leaves the page cache, or is written to swap, while a task that needs memory reclaims it: it belongs to the
// cgroup that it is charged to, and the task to its own. kswapd reclaims for everyone, so it has a name of its own.
// Truncation and unlink aren't reclaim, and aren't counted.
//
// The types are those few fields that are read, relocated at load (CO-RE). `make bpf` compiles it to memory.bpf.o.

#include "kernel.bpf.h"

struct cgroup_subsys;
struct cgroup_subsys_state___memory { struct cgroup *cgroup; struct cgroup_subsys *ss; u64 serial_nr; } CO_RE;
struct mem_cgroup { struct cgroup_subsys_state___memory css; } CO_RE;
struct obj_cgroup { struct mem_cgroup *memcg; } CO_RE;
struct folio { unsigned long memcg_data, _flags_1; } CO_RE;        // _flags_1: Linux 6.6 and newer
struct folio___order { unsigned char _folio_order; } CO_RE;        // 6.1 to 6.5
struct page { unsigned long memcg_data; } CO_RE;                   // 5.11 and newer
struct page___before { struct mem_cgroup *mem_cgroup; } CO_RE;
struct page___order { unsigned char compound_order; } CO_RE;       // before 6.1
enum pageflags { PG_head = 6, PG_swapbacked = 17 };                // relocated too

// include/linux/sched.h; the same numbers from Linux 5.10 to 7.3.
#define RECLAIMS 0x800          // PF_MEMALLOC
#define KSWAPD_TASK 0x20000     // PF_KSWAPD

#define MEMCG_FLAGS 7ull        // of memcg_data; the rest is a pointer
// Names that no cgroup has.
#define OTHER (~0ull)
#define KSWAPD (~0ull - 1)

// The version of cgroups, 2, or 1 for its controller memory. Set before loading; alone in its section, which is set whole.
const volatile u32 version = 2;

struct pair { u64 victim, evictor; };
struct cpu {
	u64 pages;               // evicted
	u64 lost;                // of these, without room in the map of pairs
	u64 controller;          // what each mem_cgroup leads to
	u64 memcg, serial, cgroup;      // the last page's mem_cgroup, its number, which isn't reused, and its cgroup
};
struct begun { u64 since, limit; };
struct reclaim {
	u64 limit, limits;       // ns and times below a cgroup's limit
	u64 machine, machines;   // because the machine's memory was full
};

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

// Threads that reclaim now.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct begun);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct reclaim);
} reclaims SEC(".maps");

static __always_inline u64 current_cgroup(void)
{
	return CURRENT_CGROUP(version, memory_cgrp_id);
}

// The controller itself, to which each of its mem_cgroups leads.
static __always_inline u64 controller_of(u64 memcg)
{
	return (u64)BPF_CORE_READ((struct mem_cgroup *)memcg, css.ss);
}

static __always_inline u64 current_controller(void)
{
	struct task_struct___current *task = (void *)bpf_get_current_task();
	u64 at = CONTROLLER_OFFSET((struct css_set *)0, memory_cgrp_id);
	struct cgroup_subsys_state___memory *state = (void *)number_at((void *)BPF_CORE_READ(task, cgroups) + at);

	return (u64)BPF_CORE_READ(state, ss);
}

static __always_inline u64 memcg_of(void *page)
{
	if (bpf_core_field_exists(struct folio, memcg_data))
		return ((struct folio *)page)->memcg_data & ~MEMCG_FLAGS;
	if (bpf_core_field_exists(struct page, memcg_data))
		return ((struct page *)page)->memcg_data & ~MEMCG_FLAGS;
	return number_at(&((struct page___before *)page)->mem_cgroup);
}

// The cgroup that a page is charged to.
static __always_inline u64 charged_cgroup(void *page, struct cpu *c)
{
	u64 memcg = memcg_of(page), serial;

	if (!memcg)
		return OTHER;
	if (!c->controller)
		c->controller = current_controller();
	serial = BPF_CORE_READ((struct mem_cgroup *)memcg, css.serial_nr);
	if (memcg == c->memcg && serial == c->serial)
		return c->cgroup;
	if (controller_of(memcg) != c->controller) {
		// Newer kernels charge an obj_cgroup, which leads to the mem_cgroup.
		if (!bpf_core_field_exists(struct obj_cgroup, memcg))
			return OTHER;
		memcg = (u64)BPF_CORE_READ((struct obj_cgroup *)memcg, memcg);
		if (controller_of(memcg) != c->controller)
			return OTHER;
		return BPF_CORE_READ((struct mem_cgroup *)memcg, css.cgroup, kn, id);
	}
	c->memcg = memcg;
	c->serial = serial;
	c->cgroup = BPF_CORE_READ((struct mem_cgroup *)memcg, css.cgroup, kn, id);
	return c->cgroup;
}

// A page's flags come first in each version of its structure, whatever their type.
static __always_inline u64 has(void *page, u64 flag)
{
	return *(u64 *)page >> flag & 1;
}

static __always_inline u64 pages_of(void *page, u64 *ctx)
{
	struct folio___order *folio = page;
	u64 order;

	if (!has(page, bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(struct folio, _flags_1)) {
		order = ((struct folio *)page)->_flags_1 & 0xff;
	} else if (bpf_core_field_exists(folio->_folio_order)) {
		order = folio->_folio_order;
	} else {
		struct page___order *second = (void *)number_at(ctx) + bpf_core_type_size(struct page);

		order = BPF_CORE_READ(second, compound_order);
	}
	return 1ull << (order & 31);
}

static __always_inline int evicted(u64 *ctx, u32 flags)
{
	void *page = (void *)ctx[0];
	u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &zero);
	struct pair key;
	u64 *sum, pages;

	if (!c)
		return 0;
	key.victim = charged_cgroup(page, c);
	key.evictor = flags & KSWAPD_TASK ? KSWAPD : current_cgroup();
	pages = pages_of(page, ctx);
	c->pages += pages;
	sum = bpf_map_lookup_elem(&pairs, &key);
	if (sum)
		*sum += pages;
	else if (bpf_map_update_elem(&pairs, &key, &pages, BPF_ANY))
		c->lost += pages;
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int on_delete(u64 *ctx)
{
	u32 flags = current_flags();

	return flags & RECLAIMS ? evicted(ctx, flags) : 0;
}

// To swap. A page of a file, which older kernels write here, too, is counted when it leaves the page cache.
static __always_inline int written(u64 *ctx)
{
	void *page = (void *)ctx[0];
	u32 flags = current_flags();

	if (!(flags & RECLAIMS) || !has(page, bpf_core_enum_value(enum pageflags, PG_swapbacked)))
		return 0;
	return evicted(ctx, flags);
}

SEC("tp_btf/mm_vmscan_write_folio")
int on_write_folio(u64 *ctx)
{
	return written(ctx);
}

SEC("tp_btf/mm_vmscan_writepage")      // its name in older kernels
int on_writepage(u64 *ctx)
{
	return written(ctx);
}

static __always_inline int begin(u64 limit)
{
	u64 thread = (u32)bpf_get_current_pid_tgid();
	struct begun begun = {bpf_ktime_get_ns(), limit};

	bpf_map_update_elem(&threads, &thread, &begun, BPF_ANY);
	return 0;
}

static __always_inline int end(void)
{
	u64 thread = (u32)bpf_get_current_pid_tgid(), cgroup = current_cgroup();
	struct begun *begun = bpf_map_lookup_elem(&threads, &thread);
	struct reclaim *r, first = {};
	u64 ns;

	if (!begun)
		return 0;
	ns = bpf_ktime_get_ns() - begun->since;
	r = bpf_map_lookup_elem(&reclaims, &cgroup);
	if (!r) {
		bpf_map_update_elem(&reclaims, &cgroup, &first, BPF_ANY);
		r = bpf_map_lookup_elem(&reclaims, &cgroup);
	}
	if (r && begun->limit) {
		r->limit += ns;
		r->limits++;
	} else if (r) {
		r->machine += ns;
		r->machines++;
	}
	bpf_map_delete_elem(&threads, &thread);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int on_limit_begin(u64 *ctx)
{
	return begin(1);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int on_limit_end(u64 *ctx)
{
	return end();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int on_machine_begin(u64 *ctx)
{
	return begin(0);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int on_machine_end(u64 *ctx)
{
	return end();
}
