// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Who waited for a disk while whose requests it served: seconds by victim, culprit and device, summed in the kernel.
//
// The time from one completion to the next belongs to the cgroup of the request that completes: its service. Each
// device sums service by cgroup, for the SLOTS cgroups that it served last. A request remembers these sums from when
// its bio was queued; their growth until it completes is what it waited while others were served. So a request costs
// the same at any queue depth, and no log can be too short.
//
// - A device that serves requests in parallel delays none of them as long as it isn't saturated. So a cgroup's requests
//   that are alone in the device tell how long its requests take there; others are charged only for what is beyond.
// - Only synchronous requests wait (reads, O_DIRECT, fsync): nobody waits for writeback. Writeback delays others, though.
// - While the device is free and the kernel delays the request (weights, io.max, plugging), it is throttled.
//
// The types are those few fields that are read, relocated at load (CO-RE). `make bpf` compiles it to disk.bpf.o.

#include "kernel.bpf.h"

struct blkcg { struct cgroup_subsys_state css; } CO_RE;
struct blkcg_gq { struct blkcg *blkcg; } CO_RE;
struct request_queue;
struct gendisk { int major, first_minor; struct request_queue *queue; } CO_RE;
struct request_queue { void *mq_ops; struct gendisk *disk; } CO_RE;         // disk: Linux 5.15 and newer
struct block_device { struct gendisk *bd_disk; } CO_RE;
struct bio { struct block_device *bi_bdev; struct blkcg_gq *bi_blkg; } CO_RE;
struct bio___disk { struct gendisk *bi_disk; } CO_RE;                       // before Linux 5.12
struct request { struct request_queue *q; u32 cmd_flags, __data_len; u64 start_time_ns; struct bio *bio; } CO_RE;
struct request___disk { struct gendisk *rq_disk; } CO_RE;                   // before Linux 5.17

// include/linux/blk_types.h; the same numbers since Linux 4.10.
#define OP 0xffu
enum { READ = 0 };
#define SYNC (1u << 11)
#define FUA (1u << 17)
#define PREFLUSH (1u << 18)

#define SLOTS 8          // cgroups by device, the last ones served
#define COMPLETED 64     // power of two
#define DEVICES 64       // power of two
#define PROBES 4         // places of a device
#define WAITING 8192     // power of two: bios, each in one of two places
#define CLASSES 9        // of requests that take equally long: 4 sizes of reads, 4 of writes, flushes
// A request that is served faster than usual leaves credit to slower ones of its cgroup, so that those whose service
// varies aren't others' doing; at most this many times the usual.
#define CREDIT 8
#define SILENCE 5000000000ull      // ns without a request, after which none is in flight
// A name that no cgroup has.
#define OTHER (~0ull)

// Set before the programs are loaded; alone in their section, so that they are all of that.
// version: of the cgroups to distinguish, 2, or 1 for those of its controller blkio. request, bio: index of this argument
// in the block layer's events: 1 in Linux 5.10 and before, 0 since; stable updates of old kernels changed it, too.
const volatile struct { u32 version, request, bio; } constants = {2, 0, 0};
#define ROOT 1ull

struct slot {
	u64 cgroup;
	u64 served;              // ns, those of the cgroups before it in this slot included
	u64 before;              // ns, those of the cgroups before it only
	u64 since, last;         // when it got the slot, when it was served last
};
struct completed { u64 begin, slot; };
struct device {
	u64 number;              // major << 20 | first minor
	u64 requests;
	u64 waited;              // what was charged, ns
	u64 lost;                // ns that found no room in the maps
	u64 asynchronous;        // requests for which nobody waits
	u64 in_flight, issues;
	u64 idle, idle_since;
	u64 last, completions;
	u64 event;
	struct slot slot[SLOTS];
	struct completed completed[COMPLETED];
};
struct waiting {
	u64 bio;
	u64 cgroup;
	u64 throttled;           // since when; 0: not
	u64 queued, issued;
	u64 idle, idle_issued;   // of the device, until then
	u64 completions;
	u64 issues;              // of the device, if it was idle; else 0
	u64 served[SLOTS];
};
struct key { u64 cgroup, device; };
struct victim {
	u64 requests;
	u64 device, self, throttled, rest;
	u64 credit;
	u64 alone[CLASSES];      // ns that a request takes, by class; 0: unknown
};
struct pair { u64 waiting, served, device; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEVICES);
	__type(key, u32);
	__type(value, struct device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WAITING);
	__type(key, u32);
	__type(value, struct waiting);
} bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct key);
	__type(value, struct victim);
} victims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct pair);
	__type(value, u64);
} pairs SEC(".maps");

// Each hook looks for the device by its number: few instructions, no hash map.
static __always_inline struct device *device_of(struct gendisk *disk)
{
	u64 number = (u64)disk->major << 20 | disk->first_minor;
	u32 at = (disk->major * 7 + disk->first_minor + (disk->first_minor >> 4)), k;

#pragma unroll
	for (k = 0; k < PROBES; k++) {
		u32 place = (at + k) & (DEVICES - 1);
		struct device *d = bpf_map_lookup_elem(&devices, &place);

		if (!d)
			return 0;
		if (d->number == number)
			return d;
		if (!d->number) {
			d->number = number;
			return d;
		}
	}
	return 0;
}

static __always_inline struct device *device_of_request(struct request *request)
{
	struct request___disk *before = (void *)request;
	struct gendisk *disk;

	if (bpf_core_field_exists(before->rq_disk))
		disk = before->rq_disk;
	else
		disk = request->q->disk;
	return disk ? device_of(disk) : 0;
}

static __always_inline struct gendisk *disk_of_bio(struct bio *bio)
{
	struct bio___disk *before = (void *)bio;

	if (bpf_core_field_exists(before->bi_disk))
		return before->bi_disk;
	return bio->bi_bdev ? bio->bi_bdev->bd_disk : 0;
}

static __always_inline u64 charged_cgroup(struct bio *bio)
{
	struct blkcg_gq *group = bio->bi_blkg;

	return group ? group->blkcg->css.cgroup->kn->id : OTHER;
}

// Whose bio is queued: the task's that does it, also where the controller isn't enabled for its cgroup; of kernel
// threads, which are in the root, whoever the kernel charges.
static __always_inline u64 cgroup_of(struct bio *bio)
{
	u64 id = CURRENT_CGROUP(constants.version, io_cgrp_id);

	return id == ROOT ? charged_cgroup(bio) : id;
}

// As assembly: the compiler would compute the offset, and the verifier wants it as a constant.
static __always_inline void *argument_of(u64 *ctx, u32 second)
{
	void *argument;

	if (second)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(argument) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(argument) : "r"(ctx));
	return argument;
}

static __always_inline u32 place_of(u64 bio)
{
	return (bio * 0x9e3779b97f4a7c15ull) >> 51 & (WAITING - 1);
}

static __always_inline struct waiting *find(u64 bio)
{
	u32 place = place_of(bio);
	struct waiting *w = bpf_map_lookup_elem(&bios, &place);

	if (!w || w->bio == bio)
		return w;
	place ^= 1;
	w = bpf_map_lookup_elem(&bios, &place);
	return w && w->bio == bio ? w : 0;
}

// The bio's place: its own, or the one that was taken earlier; bios that were merged into requests never give it back.
static __always_inline struct waiting *place(u64 bio)
{
	u32 at = place_of(bio);
	struct waiting *w = bpf_map_lookup_elem(&bios, &at), *other;

	at ^= 1;
	other = bpf_map_lookup_elem(&bios, &at);
	if (!w || !other || w->bio == bio)
		return w;
	return other->bio == bio || other->queued < w->queued ? other : w;
}

static __always_inline struct victim *victim(u64 cgroup, struct device *d)
{
	struct key key = {cgroup, d->number};
	struct victim *v = bpf_map_lookup_elem(&victims, &key);

	if (!v) {
		struct victim first = {};

		bpf_map_update_elem(&victims, &key, &first, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&victims, &key);
	}
	return v;
}

static __always_inline u64 idle_of(struct device *d, u64 now)
{
	return d->idle + (d->in_flight || !d->idle_since ? 0 : now - d->idle_since);
}

static __always_inline int queue(struct bio *bio, u64 number)
{
	struct gendisk *disk = disk_of_bio(bio);
	struct device *d;
	struct waiting *w;
	u64 now, cgroup;
	u32 k;

	if (!disk || !disk->queue->mq_ops)      // such as device mapper, which passes bios on to disks
		return 0;
	d = device_of(disk);
	w = place(number);
	if (!d || !w)
		return 0;
	now = bpf_ktime_get_ns();
	if (w->bio == number && w->throttled) {
		u64 ns = now - w->throttled;
		struct victim *v;

		cgroup = w->cgroup;      // a kernel thread queues it now
		v = victim(cgroup, d);

		if (v)
			__sync_fetch_and_add(&v->throttled, ns);
		else
			__sync_fetch_and_add(&d->lost, ns);
		__sync_fetch_and_add(&d->waited, ns);
	} else {
		cgroup = cgroup_of(bio);
	}
	w->bio = number;
	w->cgroup = cgroup;
	w->throttled = 0;
	w->queued = now;
	w->issued = 0;
	w->idle = idle_of(d, now);
	w->completions = d->completions;
#pragma unroll
	for (k = 0; k < SLOTS; k++)
		w->served[k] = d->slot[k].served;
	return 0;
}

SEC("tp_btf/block_bio_queue")
int on_queue(u64 *ctx)
{
	return queue(argument_of(ctx, constants.bio), number_at(ctx + constants.bio));
}

// Of a large bio, the first part continues as a new one.
SEC("tp_btf/block_split")
int on_split(u64 *ctx)
{
	return queue(argument_of(ctx, constants.bio), number_at(ctx + constants.bio));
}

// io.max holds bios back before they are queued.
SEC("fexit/__blk_throtl_bio")
int on_throttle(u64 *ctx)
{
	u64 bio = number_at(ctx);
	struct waiting *w;

	if (!(ctx[1] & 1))
		return 0;
	w = place(bio);
	if (w) {
		w->bio = bio;
		w->cgroup = cgroup_of((void *)ctx[0]);
		w->queued = w->throttled = bpf_ktime_get_ns();
		w->issued = 0;
	}
	return 0;
}

SEC("tp_btf/block_rq_issue")
int on_issue(u64 *ctx)
{
	struct request *request = argument_of(ctx, constants.request);
	struct device *d = device_of_request(request);
	struct waiting *w;
	u64 now, first;

	if (!d)
		return 0;
	now = bpf_ktime_get_ns();
	if (now > d->event + SILENCE)
		d->in_flight = 0;      // a request that ended without an event would stay in flight for ever
	d->event = now;
	first = !d->in_flight;
	if (first && d->idle_since) {
		d->idle += now - d->idle_since;
		d->idle_since = 0;
	}
	__sync_fetch_and_add(&d->in_flight, 1);
	__sync_fetch_and_add(&d->issues, 1);
	w = request->bio ? find(number_at(&request->bio)) : 0;
	if (w) {
		w->issued = now;
		w->idle_issued = d->idle;
		w->issues = first ? d->issues : 0;
	}
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int on_requeue(u64 *ctx)
{
	struct device *d = device_of_request(argument_of(ctx, constants.request));

	if (d && d->in_flight)
		__sync_fetch_and_add(&d->in_flight, -1);
	return 0;
}

// The slot of a cgroup, or the one that was served least recently.
static __always_inline u32 slot_of(struct device *d, u64 cgroup, u64 now)
{
	u32 k, oldest = 0;
	u64 last = ~0ull;

#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		if (d->slot[k].cgroup == cgroup)
			return k;
		if (d->slot[k].last < last) {
			last = d->slot[k].last;
			oldest = k;
		}
	}
	return oldest;
}

static __always_inline u32 class_of(struct request *request)
{
	u32 bytes = request->__data_len, size = bytes > 262144 ? 3 : bytes > 32768 ? 2 : bytes > 4096 ? 1 : 0;

	return !bytes ? CLASSES - 1 : (request->cmd_flags & OP) == READ ? size : 4 + size;
}

// Charges one culprit. Not static: so the verifier follows it once.
__attribute__((noinline)) u64 charge(u64 waiting, u64 served, u64 device, u64 ns)
{
	struct pair key = {waiting, served, device};
	u64 *sum = bpf_map_lookup_elem(&pairs, &key);

	if (sum) {
		*sum += ns;
		return 0;
	}
	return bpf_map_update_elem(&pairs, &key, &ns, BPF_ANY) ? ns : 0;
}

// What a request waited while each cgroup was served, and what that leaves for itself.
static __always_inline void settle(struct device *d, struct waiting *w, struct request *request, u64 cgroup, u64 now)
{
	struct victim *v = victim(cgroup, d);
	u64 total = now - w->queued, held = 0, others = 0, own, share = 1024;
	u64 began = 0, begun = SLOTS, rest = 0, unknown = 0, *alone, served[SLOTS];
	u32 k, class = class_of(request);

	__sync_fetch_and_add(&d->waited, total);
	if (!v) {
		__sync_fetch_and_add(&d->lost, total);
		return;
	}
	__sync_fetch_and_add(&v->requests, 1);
	if (w->issued && w->idle_issued > w->idle)
		held = w->idle_issued - w->idle;
	if (held > total)
		held = total;
	// Of the first request that completed meanwhile, the time before this one was queued isn't this one's.
	if (d->completions != w->completions && d->completions - w->completions <= COMPLETED) {
		struct completed *c = &d->completed[w->completions & (COMPLETED - 1)];

		begun = c->slot;
		if (c->begin < w->queued)
			began = w->queued - c->begin;
	}
#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		struct slot *s = &d->slot[k];
		u64 ns = s->served - w->served[k];

		if (ns && begun == k)
			ns = ns > began ? ns - began : 0;
		if (s->since > w->queued) {      // others had this slot before
			u64 its = s->served - s->before;

			its = its < ns ? its : ns;
			rest += ns - its;
			ns = its;
		}
		served[k] = ns;
		others += ns;
	}
	others += rest;
	total -= held;
	own = total > others ? total - others : 0;
	alone = &v->alone[class];
	if (w->issues && w->issues == d->issues && w->issued) {      // it was alone in the device
		u64 took = now - w->issued;

		*alone = *alone ? *alone - *alone / 8 + took / 8 : took;
	} else if (*alone) {
		u64 credit = v->credit, usual = *alone + credit;

		if (own < usual)
			own = total < usual ? total : usual;
		if (own > *alone)
			credit = credit > own - *alone ? credit - (own - *alone) : 0;
		else if (credit < CREDIT * *alone)
			credit += *alone - own;
		v->credit = credit;
	}
	if (others && own + others != total)
		share = ((total - own) << 10) / others;
	if (share > 1024)
		share = 1024;
	others = 0;
#pragma unroll
	for (k = 0; k < SLOTS; k++) {
		u64 ns = served[k] * share >> 10;

		if (!ns)
			continue;
		others += ns;
		if (d->slot[k].cgroup == cgroup)
			__sync_fetch_and_add(&v->self, ns);
		else if (d->slot[k].cgroup == OTHER)
			unknown += ns;
		else
			unknown += charge(cgroup, d->slot[k].cgroup, d->number, ns);
	}
	rest = rest * share >> 10;
	if (held)
		__sync_fetch_and_add(&v->throttled, held);
	if (total > others + rest)
		__sync_fetch_and_add(&v->device, total - others - rest);
	if (rest + unknown)
		__sync_fetch_and_add(&v->rest, rest + unknown);
}

SEC("tp_btf/block_rq_complete")
int on_complete(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	u32 bytes = ctx[2], k, flags = request->cmd_flags;
	struct device *d = device_of_request(request);
	struct bio *bio = request->bio;
	struct waiting *w;
	struct slot *s;
	u64 now, begin, cgroup, issued = 0;

	if (!d || bytes < request->__data_len)
		return 0;
	now = bpf_ktime_get_ns();
	d->event = now;
	w = bio ? find(number_at(&request->bio)) : 0;
	cgroup = w ? w->cgroup : bio ? charged_cgroup(bio) : OTHER;
	if (w && w->queued && !w->throttled && w->queued < now) {
		issued = w->issued;
		if (!(flags & OP) || flags & (SYNC | FUA | PREFLUSH))
			settle(d, w, request, cgroup, now);
		else
			__sync_fetch_and_add(&d->asynchronous, 1);
		w->bio = 0;
	}
	__sync_fetch_and_add(&d->requests, 1);
	if (d->in_flight && (!bio || bytes)) {      // an empty flush is issued as another request, which has no bio
		__sync_fetch_and_add(&d->in_flight, -1);
		if (!d->in_flight)
			d->idle_since = now;
	}
	if (!bio)
		return 0;      // a flush: the request that asked for it completes in a moment
	// Its service.
	begin = issued ? issued : request->start_time_ns;
	if (begin < d->last)
		begin = d->last;
	if (!begin || begin > now)
		begin = now;
	k = slot_of(d, cgroup, now) & (SLOTS - 1);
	s = &d->slot[k];
	if (s->cgroup != cgroup) {
		s->cgroup = cgroup;
		s->before = s->served;
		s->since = begin;
	}
	s->served += now - begin;
	s->last = now;
	d->completed[d->completions & (COMPLETED - 1)].begin = begin;
	d->completed[d->completions & (COMPLETED - 1)].slot = k;
	d->completions++;
	d->last = now;
	return 0;
}
