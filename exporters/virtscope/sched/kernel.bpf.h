// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The kernel's types that all programs use: no vmlinux.h, no kernel headers.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define CO_RE __attribute__((preserve_access_index))
struct kernfs_node { u64 id; } CO_RE;
struct cgroup { struct kernfs_node *kn; } CO_RE;
struct cgroup_subsys_state { struct cgroup *cgroup; } CO_RE;
struct css_set { struct cgroup_subsys_state *subsys[1]; struct cgroup *dfl_cgrp; } CO_RE;
struct task_struct___current { struct css_set *cgroups; unsigned int flags; } CO_RE;
// Relocated too: which controllers there are decides.
enum cgroup_subsys_id { cpu_cgrp_id = 1, io_cgrp_id = 3, memory_cgrp_id = 4 };
enum bpf_func_id___new { BPF_FUNC_get_current_task_btf___new = 158 };

// The verifier lets nobody compute with pointers; a copy of one is a number.
static __always_inline u64 number_at(void *pointer)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), pointer);
	return number;
}

// Where the cgroup of a controller of version 1 is in a css_set: an index that only the kernel knows can't be relocated
// as part of a path to a field.
#define CONTROLLER_OFFSET(cgroups, id) \
	(bpf_core_field_offset((cgroups)->subsys) + bpf_core_enum_value(enum cgroup_subsys_id, id) * sizeof(void *))

// The current task's cgroup, of version 2 or of a controller of version 1.
#define CURRENT_CGROUP(version, id) \
	((version) == 2 ? bpf_get_current_cgroup_id() : \
	 current_cgroup_at(CONTROLLER_OFFSET((struct css_set *)0, id)))

static __always_inline u64 current_cgroup_at(u64 at)
{
	struct task_struct___current *task;

	if (bpf_core_enum_value_exists(enum bpf_func_id___new, BPF_FUNC_get_current_task_btf___new)) {
		task = (void *)bpf_get_current_task_btf();
		return (*(struct cgroup_subsys_state **)((void *)task->cgroups + at))->cgroup->kn->id;
	}
	task = (void *)bpf_get_current_task();      // Linux 5.10
	struct cgroup_subsys_state *state = (void *)number_at((void *)BPF_CORE_READ(task, cgroups) + at);
	return BPF_CORE_READ(state, cgroup, kn, id);
}

static __always_inline u32 current_flags(void)
{
	struct task_struct___current *task;

	if (bpf_core_enum_value_exists(enum bpf_func_id___new, BPF_FUNC_get_current_task_btf___new)) {
		task = (void *)bpf_get_current_task_btf();
		return task->flags;
	}
	task = (void *)bpf_get_current_task();      // Linux 5.10
	return BPF_CORE_READ(task, flags);
}
