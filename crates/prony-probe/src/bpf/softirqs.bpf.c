/* How long each kind of soft interrupt runs on each CPU. */
#include "entered.h"

enum {
	VECTORS = 16,	/* The kernel has ten (include/linux/interrupt.h). */
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, VECTORS);
	__type(key, __u32);
	__type(value, __u64);
} spent SEC(".maps");

SEC("tp_btf/softirq_entry") int on_entry(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/softirq_exit") int on_exit(__u64 *ctx)
{
	__u32 vector = ctx[0];
	__u64 ns = leaves(), *sum = map_lookup(&spent, &vector);

	if (sum)
		*sum += ns;
	return 0;
}
