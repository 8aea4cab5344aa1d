// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import "joulerig/collectors/lineprotocol"

// Lines returns an interval's figures as a point of the measurement `workload`
// (docs/reference/influxdb.md), at the interval's end; realtimeOffsetNS makes its monotonic time
// UTC. A class without an operation has no quantiles.
func Lines(host, drive, run string, i Interval, realtimeOffsetNS int64) []byte {
	var e lineprotocol.Encoder
	e.Begin("workload").Tag("host", host).Tag("drive", drive).Tag("run", run)
	s := sum(i.Classes)
	e.Int("ops", s.ops)
	e.Int("read_bytes", s.bytes[Read])
	e.Int("write_bytes", s.bytes[Write])
	for _, class := range i.Classes {
		name := "class_" + class.Name
		e.Int(name+"_ops", class.Ops)
		e.Int(name+"_bytes", class.Bytes)
		e.Float(name+"_seconds", class.Seconds)
		if class.Ops == 0 {
			continue
		}
		e.Float(name+"_p50_seconds", class.P50)
		e.Float(name+"_p95_seconds", class.P95)
		e.Float(name+"_p99_seconds", class.P99)
		e.Float(name+"_p999_seconds", class.P999)
		e.Float(name+"_max_seconds", class.Max)
	}
	e.End(i.EndNS + realtimeOffsetNS)
	return e.Bytes()
}
