/* What the programs need to know of the kernel: a few fields of a few structures, helpers by their numbers, map types.
 *
 * Fields are found by name in the running kernel's type information (CO-RE), so their order and place here mean nothing.
 * Numbers are those of include/uapi/linux/bpf.h, which the kernel never changes.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define inline_always static inline __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

/* The verifier wants each value loaded once and checked before it is used; clang would do both otherwise. */
#define as_checked(value) asm volatile("" : "+r"(value))

enum map_type {
	HASH = 1,
	ARRAY = 2,
	PERCPU_ARRAY = 6,
	STACK_TRACE = 7,
	QUEUE_OF = 22,	/* BPF_MAP_TYPE_QUEUE */
	SOCKET_STORAGE = 24,	/* BPF_MAP_TYPE_SK_STORAGE */
	RING = 27,	/* BPF_MAP_TYPE_RINGBUF */
	TASK_STORAGE = 29,
};
enum {
	NO_PREALLOC = 1,	/* BPF_F_NO_PREALLOC */
	STORAGE_CREATE = 1,	/* BPF_LOCAL_STORAGE_GET_F_CREATE */
	USER_STACK = 1 << 8,	/* BPF_F_USER_STACK */
	WAKE_NOBODY = 1,	/* BPF_RB_NO_WAKEUP */
	STACK_DEPTH = 127,	/* kernel.perf_event_max_stack */
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static __u64 (*const now_ns)(void) = (void *)5;
static long (*const map_pop)(void *map, void *value) = (void *)88;
static __u32 (*const this_cpu)(void) = (void *)8;
static long (*const stack_id)(void *ctx, void *map, __u64 flags) = (void *)27;
static long (*const read_user)(void *to, __u32 size, const void *from) = (void *)112;
static void *(*const ring_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, __u64 flags) = (void *)132;
static void *(*const socket_storage)(void *map, void *sock, void *value, __u64 flags) = (void *)107;
static long (*const read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
static void *(*const task_storage)(void *map, void *task, void *value, __u64 flags) = (void *)156;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct {
	unsigned long start_stack;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	unsigned int __state;
	struct task_struct *real_parent;
	struct mm_struct *mm;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 bytes[16];	/* Read as a whole: the kernel's own field has another name. */
} __attribute__((aligned(4)));

struct sock_common {
	unsigned int skc_daddr;
	unsigned short skc_dport;
	unsigned short skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned short sk_protocol;
};

struct tcp_sock {
	unsigned int write_seq;
};

struct iov_iter {
	unsigned long count;
};

struct msghdr {
	struct iov_iter msg_iter;
};

struct net_device {
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
};

#ifdef TARGET_X86_64
struct pt_regs {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
};
#endif

#pragma clang attribute pop

static struct tcp_sock *(*const tcp_of)(void *sock) = (void *)137;
static struct task_struct *(*const current_task)(void) = (void *)158;
/* Of user code, as they were when the task last entered the kernel (Linux 5.15 and later). */
static struct pt_regs *(*const registers_of)(struct task_struct *task) = (void *)175;

/* Helpers that read kernel memory are open only to programs under the GPL or a licence that goes with it. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
