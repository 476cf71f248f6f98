/* How long each kind of soft interrupt runs on each CPU. */
#include "kernel.h"

enum {
	VECTORS = 16,	/* The kernel has ten (include/linux/interrupt.h). */
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} entered SEC(".maps");

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, VECTORS);
	__type(key, __u32);
	__type(value, __u64);
} spent SEC(".maps");

SEC("tp_btf/softirq_entry") int on_entry(__u64 *ctx)
{
	__u32 zero = 0;
	__u64 *at_ns = map_lookup(&entered, &zero);

	if (at_ns)
		*at_ns = now_ns();
	return 0;
}

SEC("tp_btf/softirq_exit") int on_exit(__u64 *ctx)
{
	__u32 zero = 0, vector = ctx[0];
	__u64 *at_ns = map_lookup(&entered, &zero), *sum = map_lookup(&spent, &vector);

	if (at_ns && *at_ns && sum) {
		*sum += now_ns() - *at_ns;
		*at_ns = 0;
	}
	return 0;
}
