// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fua_by_flush.c for kernels that have blk_queue_write_cache() no more: since Linux 6.11 a driver
 * hands the block layer all limits of a queue at once, FUA among them. For guests alone, x86-64.
 */
#include <linux/blkdev.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>

static bool off;
module_param(off, bool, 0444);
MODULE_PARM_DESC(off, "do nothing");

/* int queue_limits_commit_update(struct request_queue *q, struct queue_limits *lim) */
static int on_limits(struct kprobe *probe, struct pt_regs *regs)
{
	struct request_queue *queue = (struct request_queue *)regs->di;
	struct queue_limits *limits = (struct queue_limits *)regs->si;

	if (queue->disk && !strncmp(queue->disk->disk_name, "nvme", 4))
		limits->features &= ~BLK_FEAT_FUA;
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "queue_limits_commit_update",
	.pre_handler = on_limits,
};

static int __init fua_by_flush_init(void)
{
	return off ? 0 : register_kprobe(&probe);
}

static void __exit fua_by_flush_exit(void)
{
	if (!off)
		unregister_kprobe(&probe);
}

module_init(fua_by_flush_init);
module_exit(fua_by_flush_exit);
MODULE_DESCRIPTION("Flushes in place of Force Unit Access on NVMe disks");
MODULE_LICENSE("GPL");
