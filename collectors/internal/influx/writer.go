// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"joulerig/collectors/lineprotocol"
)

const (
	maxBatchLines = 5000
	maxBatchBytes = 512 << 10
	// A server that does not manage a batch in time gets half of it next, down to this.
	minBatchBytes = 16 << 10
	// and twice as much again after so many that it managed.
	calmBatches = 32
	// maxSplitPosts bounds the search for the bad lines of one batch: 64 posts find two bad lines
	// among 5000.
	maxSplitPosts  = 64
	requestTimeout = 10 * time.Second
	minBackoff     = 250 * time.Millisecond
	maxBackoff     = 10 * time.Second
)

// Stats counts since Open. At any time lines taken over from the spool + written_lines = sent_lines
// + rejected_lines + lines in spooled_bytes.
type Stats struct {
	WrittenLines  int64 `json:"written_lines"`  // taken by Write
	SentLines     int64 `json:"sent_lines"`     // acknowledged by the server
	RejectedLines int64 `json:"rejected_lines"` // refused by the server for what they hold, or torn by a crash; kept in rejected.lp
	SpooledBytes  int64 `json:"spooled_bytes"`  // on disk, not yet acknowledged
	ResentLines   int64 `json:"resent_lines"`   // acknowledged before, and sent again to a server that had been restarted
	// LastError is the failure that keeps lines in the spool, emptied when sending works again; or
	// the reason of the last rejection, which stays.
	LastError string `json:"last_error"`
}

// Writer sends lines in order: into the spool first, from there to the server in batches, at most
// once per flush interval while the server keeps up, and when Send asks for it. A batch is
// acknowledged by the server before the next one goes out; after a crash or a lost answer it is
// sent again, which is harmless because the same series and time overwrite.
//
// What an answer means:
//
//	204                        acknowledged
//	400, 422 of an InfluxDB    a line is bad: the batch is split until the bad lines are found
//	                           (2.x stores none of a batch with one bad line); those are rejected
//	413                        the batch is split
//	anything else, no answer   tried again forever, with a growing pause. That includes 401, 403 and
//	                           404: missing credentials or a missing database are no fault of
//	                           the lines; and a 200, or a 400 that is not InfluxDB's: a web
//	                           server at a wrong URL must not be taken for the database
type Writer struct {
	config Config
	target string
	client *http.Client
	spool  *spool

	password string        // the sender's own
	buf      []byte        // the sender's own
	limit    int           // the sender's own: most bytes of a batch at present
	calm     int           // the sender's own: batches in time since limit was changed
	backoff  time.Duration // the sender's own: the least pause after the next failure
	progress bool          // the sender's own: something was acknowledged since drain began
	again    int64         // the sender's own: bytes at the head of the spool that were acknowledged before
	fresh    bool          // the sender's own: a connection was made since reconcile

	mu     sync.Mutex
	stats  Stats
	outage bool // LastError is one that a success empties
	closed bool

	asked   chan struct{} // by Send, and not yet begun
	closing chan struct{}
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
}

// Open takes the spool over and starts to send what it holds. It does not need the server to be
// there.
func Open(cfg Config) (*Writer, error) { return open(cfg, requestTimeout) }

func open(cfg Config, timeout time.Duration) (*Writer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	password, err := cfg.password()
	if err != nil {
		return nil, err
	}
	sp, err := openSpool(cfg.SpoolDir, cfg.MaxSpoolBytes)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		config:   cfg,
		target:   strings.TrimRight(cfg.URL, "/") + "/write?db=" + url.QueryEscape(cfg.Database) + "&precision=ns",
		password: password,
		spool:    sp,
		limit:    maxBatchBytes,
		backoff:  minBackoff,
		asked:    make(chan struct{}, 1),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		client: &http.Client{
			Timeout: timeout,
			// No proxy from the environment: a lab's database is in the lab.
			Transport: &http.Transport{
				MaxIdleConns: 1, MaxConnsPerHost: 1, IdleConnTimeout: 2 * MaxFlushIntervalSeconds * time.Second,
				DisableCompression: true, ReadBufferSize: 4 << 10, WriteBufferSize: 32 << 10,
			},
			// A redirected POST would become a GET and lose the lines.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.run()
	return w, nil
}

// Write appends whole lines, each ended by \n, to the spool. It takes all of them or none; after an
// error (spool full, disk full, closed) the caller counts them as dropped. It never waits for the
// server.
func (w *Writer) Write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if lines[len(lines)-1] != '\n' {
		return errors.New("write points: the last line is not ended by a line end")
	}
	if len(lines) > lineprotocol.MaxLineBytes {
		for rest := lines; len(rest) > 0; {
			n := bytes.IndexByte(rest, '\n') + 1
			if n > lineprotocol.MaxLineBytes {
				return fmt.Errorf("write points: a line of %d bytes: expected at most %d", n, lineprotocol.MaxLineBytes)
			}
			rest = rest[n:]
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("write points: the writer is closed")
	}
	if err := w.spool.append(lines); err != nil {
		return fmt.Errorf("write points: %w", err)
	}
	w.stats.WrittenLines += int64(bytes.Count(lines, newline))
	return nil
}

// Send has what was written go out now, not with the next flush interval. It waits for nothing.
func (w *Writer) Send() {
	select {
	case w.asked <- struct{}{}:
	default: // it is about to
	}
}

var newline = []byte{'\n'}

// Stats may be called at any time, also after Close.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	stats := w.stats
	stats.SpooledBytes = w.spool.pending()
	return stats
}

// Close sends what is left, once, until ctx ends, and leaves the rest in the spool, synced to disk.
// The error says how much that is.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		<-w.done
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, w.cancel)
	defer stop()
	close(w.closing)
	<-w.done
	w.cancel()
	w.client.CloseIdleConnections()
	left := w.spool.pending()
	reason := w.Stats().LastError
	if err := w.spool.close(); err != nil {
		return fmt.Errorf("close the spool: %w", err)
	}
	if left > 0 {
		return fmt.Errorf("%d bytes stay in the spool %s for the next start: %s", left, w.config.SpoolDir, reason)
	}
	return nil
}

// run is the sender.
func (w *Writer) run() {
	defer close(w.done)
	ticker := time.NewTicker(w.config.flushInterval())
	defer ticker.Stop()
	for {
		last := false
		select {
		case <-ticker.C:
		case <-w.asked:
		case <-w.closing:
			last = true
		}
		for {
			w.progress = false
			err := w.drain()
			if err == nil || w.progress {
				w.backoff = minBackoff
			}
			if err == nil {
				break
			}
			w.fail(err)
			pause := w.slowDown(err)
			if last || w.ctx.Err() != nil {
				break
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-w.closing:
				timer.Stop()
				last = true
			}
		}
		if last {
			return
		}
	}
}

// slowDown follows a failure: the next batch is smaller where the server did not manage this one in
// time. It returns the pause before it.
func (w *Writer) slowDown(err error) (pause time.Duration) {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		w.limit, w.calm = max(w.limit/2, minBatchBytes), 0
	}
	pause = w.backoff
	var busy *retryAfter
	if errors.As(err, &busy) {
		pause = max(pause, busy.pause)
	}
	w.backoff = min(2*w.backoff, maxBackoff)
	return pause
}

// speedUp follows a batch in time: after some of them the next ones are larger.
func (w *Writer) speedUp() {
	if w.calm++; w.calm == calmBatches {
		w.limit, w.calm = min(2*w.limit, maxBatchBytes), 0
	}
}

// drain sends batches until the spool is empty or one fails.
func (w *Writer) drain() error {
	for {
		pending := w.spool.pending()
		b, err := w.nextBatch(pending)
		if errors.Is(err, errGone) {
			var result delivery
			result.rejected = []rejection{{count: 1, reason: fmt.Sprintf("%d bytes are lost: %v", w.spool.forget(), err)}}
			w.succeed(&result)
			continue
		}
		if err != nil {
			return err
		}
		if len(b.bytes) == 0 {
			if b.sealed && pending > 0 {
				if err := w.spool.acknowledge(0); err != nil {
					w.fail(err)
				}
				continue
			}
			return nil
		}
		var result delivery
		switch {
		case b.torn != "":
			result.reject(b.bytes, max(1, b.lines), b.torn)
		case b.lines > 0:
			result.postsLeft = maxSplitPosts
			if err := w.deliver(&result, b.bytes, b.lines); err != nil {
				return err
			}
			w.speedUp()
		}
		result.again = w.again > 0
		for i := range result.rejected {
			if result.again {
				break // they were kept when they were refused first
			}
			// On a full disk they cannot be kept, and must not hold up the others.
			r := &result.rejected[i]
			if err := w.spool.keepRejected(r.reason, r.lines); err != nil {
				r.reason = fmt.Sprintf("%s (not kept: %v)", r.reason, err)
			}
		}
		err = w.spool.acknowledge(int64(len(b.bytes)))
		w.progress = true
		w.again = max(0, w.again-int64(len(b.bytes)))
		w.succeed(&result)
		if err != nil {
			w.fail(err)
		}
		if w.fresh && result.sent > 0 {
			w.fresh = false
			w.reconcile()
		}
	}
}

// batch is what goes out next.
type batch struct {
	bytes  []byte
	lines  int    // whole ones
	torn   string // why none of it can be sent; "": it can
	sealed bool   // nothing follows in the segment
}

// nextBatch reads the spool, of which about `pending` bytes are known to be there.
func (w *Writer) nextBatch(pending int64) (batch, error) {
	want := int(min(max(pending, 32<<10), maxBatchBytes))
	for {
		if len(w.buf) < want || len(w.buf) > 4*want {
			// Follows the need: an agent sends 30 kB a second and must stay small also after the
			// outage that made it send more at once.
			w.buf = make([]byte, want)
		}
		chunk, sealed, err := w.spool.next(w.buf)
		if err != nil || len(chunk) == 0 {
			return batch{sealed: sealed}, err
		}
		limit := w.limit
		if w.again > 0 {
			limit = int(min(int64(limit), w.again)) // one batch is not of both kinds
		}
		whole, lines := cutBatch(chunk, limit)
		if lines > 0 {
			clean, cleanLines := untorn(whole)
			if cleanLines > 0 {
				return batch{bytes: clean, lines: cleanLines}, nil
			}
			n := bytes.IndexByte(whole, '\n') + 1
			return batch{bytes: whole[:n], lines: 1, torn: "torn line in the spool"}, nil
		}
		if !sealed && len(chunk) < lineprotocol.MaxLineBytes && len(chunk) == len(w.buf) {
			want = lineprotocol.MaxLineBytes // a line longer than the buffer, that came after `pending` was asked for
			continue
		}
		if !sealed && len(chunk) < len(w.buf) {
			return batch{}, fmt.Errorf("the spool %s holds a line that is not ended", w.config.SpoolDir)
		}
		// No line end in all of it: the end of a segment that a crash tore, or what a power cut
		// left of one.
		return batch{bytes: chunk, torn: "torn line in the spool"}, nil
	}
}

// cutBatch takes whole lines: at most maxBatchLines, and as many as fit in limit bytes, but one at
// least.
func cutBatch(chunk []byte, limit int) (batch []byte, lines int) {
	end := 0
	for lines < maxBatchLines {
		i := bytes.IndexByte(chunk[end:], '\n')
		if i < 0 || (lines > 0 && end+i+1 > limit) {
			break
		}
		end += i + 1
		lines++
	}
	return chunk[:end], lines
}

// untorn returns the lines in front of the first that holds a zero byte. No line is written with
// one: it is a block of the file that never got to the disk in a power cut, and the rest of such a
// line might pass for another series or value.
func untorn(lines []byte) (clean []byte, n int) {
	if zero := bytes.IndexByte(lines, 0); zero >= 0 {
		lines = lines[:bytes.LastIndexByte(lines[:zero], '\n')+1]
	}
	return lines, bytes.Count(lines, newline)
}

// delivery is the result of one batch.
type delivery struct {
	postsLeft int
	sent      int
	rejected  []rejection
	again     bool // it was acknowledged before
}

type rejection struct {
	lines  []byte
	count  int
	reason string
}

func (d *delivery) reject(lines []byte, count int, reason string) {
	d.rejected = append(d.rejected, rejection{lines, count, reason})
}

// deliver posts a batch, in halves where the server refuses it for what it holds. An error means
// that the whole batch has to be tried again.
func (w *Writer) deliver(d *delivery, batch []byte, lines int) error {
	d.postsLeft--
	verdict, reason, err := w.post(batch)
	switch {
	case err != nil:
		return err
	case verdict == accepted:
		d.sent += lines
		return nil
	case lines == 1 || (verdict == refused && d.postsLeft <= 0):
		d.reject(batch, lines, reason)
		return nil
	}
	half, at := lines/2, 0
	for range half {
		at += bytes.IndexByte(batch[at:], '\n') + 1
	}
	if err := w.deliver(d, batch[:at], half); err != nil {
		return err
	}
	return w.deliver(d, batch[at:], lines-half)
}

// reconcile sends what is kept again if the server is not the process that acknowledged it.
// InfluxDB 1.6 that was killed amid a write may, when it is started the next time but one, forget
// what it acknowledged in between (README.md). 1.x reports in /debug/vars when it was started; of a
// server that does not tell nothing is asked again.
func (w *Writer) reconcile() {
	started := w.serverStarted()
	before := w.spool.server()
	if started == "" || started == before {
		return
	}
	if before != "" {
		again, err := w.spool.rewind()
		w.again += again // in front of what is left of an earlier time
		if err != nil {
			w.fail(fmt.Errorf("send again what a restarted server may have forgotten: %w", err))
		}
	}
	if err := w.spool.setServer(started); err != nil {
		w.fail(err)
	}
}

func (w *Writer) serverStarted() string {
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, strings.TrimRight(w.config.URL, "/")+"/debug/vars", nil)
	if err != nil {
		return ""
	}
	if w.config.Username != "" {
		req.SetBasicAuth(w.config.Username, w.password)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var vars struct{ System struct{ Started string } }
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &vars) != nil {
		return ""
	}
	return strings.Join(strings.Fields(vars.System.Started), " ")
}

type verdict int

const (
	accepted verdict = iota
	refused          // a line in it is bad
	tooLarge
)

// retryAfter is a refusal for now, with the pause the server asks for.
type retryAfter struct {
	pause  time.Duration
	reason string
}

func (e *retryAfter) Error() string { return e.reason }

func (w *Writer) post(batch []byte) (verdict, string, error) {
	var fresh atomic.Bool
	defer func() { w.fresh = w.fresh || fresh.Load() }()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.target, bytes.NewReader(batch))
	if err != nil {
		return 0, "", err
	}
	req = req.WithContext(httptrace.WithClientTrace(w.ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { fresh.Store(!c.Reused) },
	}))
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if w.config.Username != "" {
		req.SetBasicAuth(w.config.Username, w.password)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		// The connection is used again only if the answer was read to its end.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return accepted, "", nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	text, ours := answerText(body)
	ours = ours || resp.Header.Get("X-Influxdb-Version") != ""
	reason := fmt.Sprintf("%s answered %s: %s", w.config.URL, resp.Status, text)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if ours {
			return refused, reason, nil
		}
		reason += " (that is no InfluxDB)"
	case http.StatusRequestEntityTooLarge:
		return tooLarge, reason, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		if password, err := w.config.password(); err == nil {
			w.password = password
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			return 0, "", &retryAfter{min(time.Duration(s)*time.Second, time.Minute), reason}
		}
	}
	return 0, "", errors.New(reason)
}

// answerText is the message of 1.x and 3.x ("error") or 2.x ("message"), else the text; and whether
// it was such a message.
func answerText(body []byte) (text string, influx bool) {
	var answer struct{ Error, Message string }
	text = strings.TrimSpace(string(body))
	if json.Unmarshal(body, &answer) == nil && answer.Error+answer.Message != "" {
		text, influx = answer.Error+answer.Message, true
	}
	return lineprotocol.Truncate(strings.ReplaceAll(text, "\n", " "), 400), influx
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.LastError = err.Error()
	w.outage = true
}

func (w *Writer) succeed(d *delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outage {
		w.stats.LastError, w.outage = "", false
	}
	if d.again {
		w.stats.ResentLines += int64(d.sent)
		return
	}
	w.stats.SentLines += int64(d.sent)
	for _, r := range d.rejected {
		w.stats.RejectedLines += int64(r.count)
		w.stats.LastError = r.reason
	}
}
