// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The lines of an application, each with a transaction's number:
// docs/reference/protocols/application.md.
const (
	lineBegin    = "begin"
	lineCommit   = "commit"
	lineRollback = "rollback"
	lineFound    = "found"
	lineTorn     = "torn"
)

const opTransaction = "transaction"

// rolledBack is the error of a transaction that its application gave up: it must not be there.
const rolledBack = "rolled back"

// checked is how an application's checker ended; its transactions follow.
type checked struct {
	Application int    `json:"application"` // exit code
	Error       string `json:"error,omitempty"`
}

// transaction is one that the checker found.
type transaction struct {
	Transaction uint64 `json:"transaction"`
	State       string `json:"state"` // found or torn
}

// parseLine splits "WORD NUMBER", and checks the word.
func parseLine(line string, words ...string) (word string, number uint64, err error) {
	word, digits, _ := strings.Cut(strings.TrimRight(line, "\r"), " ")
	for _, allowed := range words {
		if word == allowed {
			if number, err = strconv.ParseUint(digits, 10, 63); err == nil && number > 0 {
				return word, number, nil
			}
		}
	}
	return "", 0, fmt.Errorf("the application printed %.80q: expected one of %s and a number",
		line, strings.Join(words, ", "))
}

// command is the application with its last arguments; what it says of errors is this program's.
func (s *settings) command(arguments ...string) *exec.Cmd {
	words := append(append([]string{}, s.application[1:]...), arguments...)
	command := exec.Command(s.application[0], words...)
	command.Stderr = os.Stderr
	return command
}

// transact runs the application in a folder of the generation's own, and reports its transactions.
// The application waits for an answer to each of its lines, so none is ahead of the witness.
func (s *settings) transact(w *writer) error {
	folder, err := makeGenerationFolder(s.directory, w.generation)
	if err != nil {
		return err
	}
	command := s.command("run", folder, strconv.FormatUint(s.seed, 10))
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("--application: %w", err)
	}
	if err := follow(w, output, input); err != nil {
		// Nothing may use the folder after this process has ended.
		command.Process.Kill()
		command.Wait()
		return err
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("the application: %w", err)
	}
	return errors.New("the application ended by itself: expected transactions until its input ends")
}

// follow passes the application's lines on until it, its drive or the witness has gone. It returns
// nil where the application printed no more.
func follow(w *writer, output io.Reader, input io.Writer) error {
	lines := bufio.NewScanner(output)
	open := uint64(0) // the transaction that has begun
	for lines.Scan() {
		word, number, err := parseLine(lines.Text(), lineBegin, lineCommit, lineRollback)
		if err != nil {
			return err
		}
		switch {
		case word == lineBegin && open == 0 && number == w.last.Load()+1:
			open = w.next()
			err = w.witness.say(operation{
				Event: "issued", Sequence: number, Operation: opTransaction, Call: opTransaction, Target: "",
			})
		case word == lineCommit && number == open:
			open = 0
			err = w.witness.report(outcome{Event: "acknowledged", Sequence: number})
		case word == lineRollback && number == open:
			open = 0
			err = w.witness.report(outcome{"failed", number, rolledBack})
		default:
			err = fmt.Errorf("the application printed %q after transaction %d: expected begin of the next one, "+
				"or the end of the one that has begun", lines.Text(), w.last.Load())
		}
		if err != nil {
			return err
		}
		if _, err := io.WriteString(input, "ok\n"); err != nil {
			return nil // it has ended: how is what counts
		}
	}
	return lines.Err()
}

// checkApplication runs the application's checker on a generation's folder, and prints what it
// found. One that fails has found a store that cannot be read: that is a finding too.
func (s *settings) checkApplication(out io.Writer) error {
	folder := generationFolder(s.directory, uint32(s.generation))
	command := s.command("check", folder)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	found := checked{}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		found.Application, found.Error = exit.ExitCode(), lastLine(complaint.String())
	} else if err != nil {
		return fmt.Errorf("--application: %w", err)
	}
	buffer := bufio.NewWriter(out)
	lines := json.NewEncoder(buffer)
	if err := lines.Encode(found); err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSuffix(string(output), "\n"), "\n") {
		if line == "" {
			continue
		}
		word, number, err := parseLine(line, lineFound, lineTorn)
		if err != nil {
			return err
		}
		if err := lines.Encode(transaction{number, word}); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
