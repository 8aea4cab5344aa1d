// SPDX-License-Identifier: GPL-3.0-or-later

package loadrunner

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"joulerig/workloads/internal/measure"
)

// outputs are where a load's figures go. The series is written by the collector's goroutine; the
// rest is used when that has ended.
type outputs struct {
	options       *Options
	stdout        io.Writer
	reportFile    *os.File // nil: stdout
	intervalsFile *os.File // nil: none
	socket        *net.UnixConn

	lost    int64 // points
	failure error // of the intervals' file
}

// interval is a line of the intervals' file.
type interval struct {
	BeginRealtimeNS int64 `json:"begin_realtime_ns"`
	EndRealtimeNS   int64 `json:"end_realtime_ns"`
	measure.Interval
}

// partial is the report's name while it is not whole.
func partial(path string) string { return path + ".partial" }

// create opens what becomes the report: a file next to it, so that it is there whole or not at all.
// What is no regular file (a pipe, /dev/null) is written itself and stays what it is.
func create(path string) (*os.File, error) {
	if there, err := os.Stat(path); err == nil && !there.Mode().IsRegular() {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	return os.Create(partial(path))
}

func (o *Options) openOutputs(stdout io.Writer) (out *outputs, err error) {
	out = &outputs{options: o, stdout: stdout}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	if o.Output != "" {
		if out.reportFile, err = create(o.Output); err != nil {
			return out, fmt.Errorf("--output: %w", err)
		}
	}
	if o.Intervals != "" {
		if out.intervalsFile, err = os.Create(o.Intervals); err != nil {
			return out, fmt.Errorf("--intervals: %w", err)
		}
	}
	if o.socket != "" {
		if err = out.dial(); err != nil {
			return out, fmt.Errorf("--points: %w", err)
		}
	}
	return out, nil
}

func (out *outputs) dial() (err error) {
	out.socket, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: out.options.socket, Net: "unixgram"})
	return err
}

func (out *outputs) close() {
	if out.reportFile != nil {
		out.reportFile.Close()
		os.Remove(partial(out.options.Output)) // gone already where it became the report
	}
	if out.intervalsFile != nil {
		out.intervalsFile.Close()
	}
	if out.socket != nil {
		out.socket.Close()
	}
}

func (out *outputs) interval(i measure.Interval) {
	offset := measure.RealtimeOffset()
	if out.intervalsFile != nil && out.failure == nil {
		// One write a line: what is there after a crash is whole lines.
		line, err := json.Marshal(interval{i.StartNS + offset, i.EndNS + offset, i})
		if err == nil {
			_, err = out.intervalsFile.Write(append(line, '\n'))
		}
		out.failure = err
	}
	if out.options.socket != "" {
		o := out.options
		if err := out.send(measure.Lines(o.host, o.drive, o.runTag, i, offset)); err != nil {
			out.lost++
		}
	}
}

// send sends the host agent a datagram, also one that was restarted meanwhile. It does not wait
// long.
func (out *outputs) send(lines []byte) error {
	if out.socket != nil {
		if err := out.write(lines); err == nil {
			return nil
		}
		out.socket.Close()
		out.socket = nil
	}
	if err := out.dial(); err != nil {
		out.socket = nil
		return err
	}
	return out.write(lines)
}

func (out *outputs) write(lines []byte) error {
	// Can fail on a closed socket only, which the write then reports.
	_ = out.socket.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	_, err := out.socket.Write(lines)
	return err
}

// report writes the report, whole or not at all.
func (out *outputs) report(report Report) error {
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if out.reportFile == nil {
		_, err := out.stdout.Write(text)
		return err
	}
	if _, err := out.reportFile.Write(text); err != nil {
		return err
	}
	if out.reportFile.Name() == out.options.Output {
		return nil
	}
	return os.Rename(out.reportFile.Name(), out.options.Output)
}
