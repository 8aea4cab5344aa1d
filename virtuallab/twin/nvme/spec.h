/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The numbers of NVMe that the twin's controller uses: NVM Express base specification
 * 1.4, NVMe over Fabrics 1.1 with its TCP transport binding; the drive's measurement of
 * power as in 2.1 and later, log C0h as in OCP's Datacenter NVMe SSD specification.
 */
#ifndef JOULERIG_NVME_SPEC_H
#define JOULERIG_NVME_SPEC_H

#define NVME_COMMAND_BYTES 64
#define NVME_COMPLETION_BYTES 16
#define NVME_PAGE_BYTES 4096 /* of what Identify gives, and the unit of MDTS */
#define NVME_BLOCK_SHIFT 9
#define NVME_BLOCK_BYTES (1u << NVME_BLOCK_SHIFT)
#define NVME_VERSION 0x00010400u
#define NVME_NAMESPACE 1u
#define NVME_ALL_NAMESPACES 0xffffffffu

/* Limits of this controller. */
#define NVME_MDTS 7 /* 2^7 pages: as QEMU's controller */
#define NVME_MAX_TRANSFER (NVME_PAGE_BYTES << NVME_MDTS)
#define NVME_IN_CAPSULE_BYTES 131072u
#define NVME_MAX_H2C_BYTES 131072u
#define NVME_QUEUE_ENTRIES 128u
#define NVME_MAX_QUEUES 16u
#define NVME_EVENTS 4u /* that the controller keeps for it to answer */
#define NVME_ERROR_ENTRIES 16u

/* In a command. */
#define NVME_OPCODE 0
#define NVME_FLAGS 1
#define NVME_COMMAND_ID 2
#define NVME_NSID 4
#define NVME_SGL 24
#define NVME_CDW10 40
#define NVME_CDW11 44
#define NVME_CDW12 48
#define NVME_CDW13 52
#define NVME_CDW14 56
#define NVME_CDW15 60

#define NVME_SGL_IN_CAPSULE 0x01 /* data block, offset */
#define NVME_SGL_TRANSPORT 0x5a	 /* transport data block */

enum nvme_admin_opcode {
	ADMIN_GET_LOG = 0x02,
	ADMIN_IDENTIFY = 0x06,
	ADMIN_ABORT = 0x08,
	ADMIN_SET_FEATURES = 0x09,
	ADMIN_GET_FEATURES = 0x0a,
	ADMIN_ASYNC_EVENT = 0x0c,
	ADMIN_KEEP_ALIVE = 0x18,
	ADMIN_FABRICS = 0x7f,
	ADMIN_FORMAT = 0x80,
};

enum nvme_fabrics_type { FABRICS_PROPERTY_SET = 0x00, FABRICS_CONNECT = 0x01, FABRICS_PROPERTY_GET = 0x04 };

enum nvme_io_opcode {
	IO_FLUSH = 0x00,
	IO_WRITE = 0x01,
	IO_READ = 0x02,
	IO_WRITE_ZEROES = 0x08,
	IO_DATASET_MANAGEMENT = 0x09,
};

enum nvme_property {
	PROPERTY_CAP = 0x00,
	PROPERTY_VS = 0x08,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,
};

enum nvme_feature {
	FEATURE_ARBITRATION = 0x01,
	FEATURE_POWER = 0x02,
	FEATURE_TEMPERATURE = 0x04,
	FEATURE_ERROR_RECOVERY = 0x05,
	FEATURE_WRITE_CACHE = 0x06,
	FEATURE_QUEUES = 0x07,
	FEATURE_WRITE_ATOMICITY = 0x0a,
	FEATURE_EVENTS = 0x0b,
	FEATURE_AUTONOMOUS = 0x0c,
	FEATURE_TIMESTAMP = 0x0e,
	FEATURE_KEEP_ALIVE = 0x0f,
	FEATURE_POWER_LIMIT = 0x23,
	FEATURE_POWER_MEASUREMENT = 0x25,
};

enum nvme_log {
	LOG_ERRORS = 0x01,
	LOG_HEALTH = 0x02,
	LOG_FIRMWARE = 0x03,
	LOG_POWER_MEASUREMENT = 0x25,
	LOG_OCP_HEALTH = 0xc0,
};

#define NVME_AUTONOMOUS_BYTES 256 /* the table of FEATURE_AUTONOMOUS */
#define NVME_STATES 32		  /* power states, its entries */

/* Status: type << 8 | code. */
#define NVME_DO_NOT_RETRY 0x4000u
enum nvme_status {
	STATUS_OK = 0x000,
	STATUS_INVALID_OPCODE = 0x001,
	STATUS_INVALID_FIELD = 0x002,
	STATUS_INTERNAL = 0x006,
	STATUS_INVALID_NAMESPACE = 0x00b,
	STATUS_SEQUENCE = 0x00c,
	STATUS_DATA_LENGTH = 0x00f,
	STATUS_SGL_TYPE = 0x011,
	STATUS_INVALID_POWER_LIMIT = 0x03e,
	STATUS_LBA_RANGE = 0x080,
	STATUS_EVENT_LIMIT = 0x105,
	STATUS_INVALID_LOG = 0x109,
	STATUS_INVALID_FORMAT = 0x10a,
	STATUS_NOT_SAVEABLE = 0x10d,
	STATUS_NOT_CHANGEABLE = 0x10e,
	STATUS_CONNECT_FORMAT = 0x180,
	STATUS_CONNECT_BUSY = 0x181,
	STATUS_CONNECT_INVALID = 0x182,
	STATUS_WRITE_FAULT = 0x280,
	STATUS_READ_ERROR = 0x281,
};

#endif
