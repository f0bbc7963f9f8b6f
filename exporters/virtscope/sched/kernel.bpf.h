// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The kernel's types that both programs use: no vmlinux.h, no kernel headers.

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
