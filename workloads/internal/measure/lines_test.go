// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"testing"

	"joulerig/collectors/lineprotocol"
)

func TestLinesArePointsOfTheSchema(t *testing.T) {
	i := Interval{StartNS: 1e9, EndNS: 2e9, Classes: []ClassFigures{
		{Name: "read", Kind: Read, Ops: 2, Bytes: 8192, Seconds: 0.5, P50: 0.1, P95: 0.2, P99: 0.3, P999: 0.35, Max: 0.4},
		{Name: "append", Kind: Write, Ops: 1, Bytes: 100, Seconds: 2, P50: 2, P95: 2, P99: 2, P999: 2, Max: 2},
		{Name: "fsync", Kind: Sync},
	}}
	got := string(Lines("host 1", "nvme", "r7", i, 17e17))
	want := `workload,host=host\ 1,drive=nvme,run=r7 ops=3i,read_bytes=8192i,write_bytes=100i,` +
		`class_read_ops=2i,class_read_bytes=8192i,class_read_seconds=0.5,class_read_p50_seconds=0.1,class_read_p95_seconds=0.2,` +
		`class_read_p99_seconds=0.3,class_read_p999_seconds=0.35,class_read_max_seconds=0.4,` +
		`class_append_ops=1i,class_append_bytes=100i,class_append_seconds=2,class_append_p50_seconds=2,class_append_p95_seconds=2,` +
		`class_append_p99_seconds=2,class_append_p999_seconds=2,class_append_max_seconds=2,` +
		`class_fsync_ops=0i,class_fsync_bytes=0i,class_fsync_seconds=0 1700000002000000000` + "\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if err := lineprotocol.CheckLines([]byte(got)); err != nil {
		t.Errorf("the host agent refuses it: %v", err)
	}
}
