// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// imported returns the operations of an strace without times and threads, and the declared files.
func imported(t *testing.T, root, text string) (string, *Imported) {
	t.Helper()
	var out bytes.Buffer
	reported, err := ImportStrace(strings.NewReader(text), &out, root)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(out.String(), "\n") {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 && fields[0] != "#" {
			if fields[0] == "file" {
				fields[2] = line
			}
			lines = append(lines, fields[2])
		}
	}
	return strings.Join(lines, "\n"), reported
}

// strace gives lines of thread 7, one a microsecond; a line that begins with a number has its own
// thread.
func strace(lines ...string) string {
	var text strings.Builder
	for i, line := range lines {
		task := "7"
		if line[0] >= '0' && line[0] <= '9' {
			task, line, _ = strings.Cut(line, " ")
		}
		text.WriteString(task + " 1700000000.0000" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + " " + line + "\n")
	}
	return text.String()
}

func TestImportStrace(t *testing.T) {
	for _, c := range []struct {
		what string
		in   string
		want string
	}{
		{"positions go on", strace(
			`openat(AT_FDCWD, "/r/a", O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0644) = 3 <0.000010>`,
			`write(3, "abc\"),"..., 100) = 100 <0.000010>`,
			`lseek(3, 10, SEEK_SET)          = 10 <0.000001>`,
			`read(3, "\0\1", 50)             = 50 <0.000002>`,
			`readv(3, [{iov_base="x", iov_len=1}, {iov_base="y", iov_len=9}], 2) = 10 <0.000002>`,
			`pwrite64(3, "abc", 4096, 8192)  = 4096 <0.000010>`,
			`pread64(3, "abc", 5, 1)         = 5 <0.000010>`,
			`fsync(3) = 0 <0.1>`, `fdatasync(3) = 0 <0.1>`, `ftruncate(3, 5) = 0 <0.1>`, `close(3) = 0 <0.000001>`,
		), "create a\nwrite a 0 100\nread a 10 50\nread a 60 10\nwrite a 8192 4096\nread a 1 5\nfsync a\nfdatasync a\ntruncate a 5\nclose a"},
		{"descriptors with paths, as -y writes them", strace(
			`openat(AT_FDCWD</home>, "/r/a", O_RDONLY) = 3</r/a> <0.000010>`, `read(3</r/a>, "abc", 3) = 3 <0.1>`,
		), "open a\nread a 0 3"},
		{"appends", strace(
			`open("/r/log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3 <0.1>`, `write(3, "x", 1) = 1 <0.1>`, `writev(3, [], 2) = 20 <0.1>`,
		), "create log\nappend log 1\nappend log 20"},
		{"synchronous writes", strace(
			`open("/r/a", O_WRONLY|O_DSYNC) = 3 <0.1>`, `write(3, "x", 1) = 1 <0.1>`,
			`open("/r/b", O_WRONLY|O_SYNC) = 4 <0.1>`, `write(4, "x", 1) = 1 <0.1>`,
		), "open a\nwrite a 0 1\nopen b\nwrite b 0 1\nfdatasync a\nfsync b"},
		{"the last duplicate closes", strace(
			`open("/r/a", O_RDONLY) = 3 <0.1>`, `dup(3) = 4 <0.1>`, `fcntl(3, F_DUPFD_CLOEXEC, 10) = 10 <0.1>`, `dup2(4, 5) = 5 <0.1>`,
			`read(3, "x", 1) = 1 <0.1>`, `close(3) = 0 <0.1>`, `close(4) = 0 <0.1>`, `close(10) = 0 <0.1>`,
			`read(5, "x", 1) = 1 <0.1>`, `close(5) = 0 <0.1>`,
		), "open a\nread a 0 1\nread a 1 1\nclose a"},
		{"names", strace(
			`unlink("/r/a") = 0 <0.1>`, `rename("/r/b", "/r/d/c d") = 0 <0.1>`, `unlinkat(AT_FDCWD, "/r/d/c d", 0) = 0 <0.1>`,
			`stat("/r/e", {st_mode=S_IFREG|0644, st_size=99, ...}) = 0 <0.1>`, `truncate("/r/e", 0) = 0 <0.1>`,
			`newfstatat(AT_FDCWD, "/r/d", {st_mode=S_IFDIR|0755, st_size=4096, ...}, 0) = 0 <0.1>`, `unlinkat(3, "/r/d", AT_REMOVEDIR) = 0 <0.1>`,
		), "file e 99\nunlink a\nrename b \"d/c d\"\nunlink \"d/c d\"\nstat e\ntruncate e 0\nstat d/"},
		{"folders", strace(
			`chdir("/r/d") = 0 <0.1>`, `open("a", O_RDONLY) = 3 <0.1>`, `openat(AT_FDCWD, "/r/e", O_RDONLY|O_DIRECTORY) = 4 <0.1>`,
			`openat(4, "../b", O_RDONLY) = 5 <0.1>`, `fsync(4) = 0 <0.1>`, `fchdir(4) = 0 <0.1>`, `unlink("x") = 0 <0.1>`,
		), "open d/a\nopen e/\nopen b\nfsync e/\nunlink e/x"},
		{"a file that O_CREAT found shows when unwritten data are read", strace(
			`open("/r/db", O_RDWR|O_CREAT, 0644) = 3 <0.1>`, `write(3, "x", 10) = 10 <0.1>`, `pread64(3, "x", 100, 0) = 100 <0.1>`,
		), "open db\nwrite db 0 10\nread db 0 100"},
		{"or when its size is asked for", strace(
			`open("/r/db", O_RDWR|O_CREAT, 0644) = 3 <0.1>`, `fstat(3, {st_mode=S_IFREG|0644, st_size=8192, ...}) = 0 <0.1>`,
		), "file db 8192\nopen db"},
		{"calls recorded in two lines", strace(
			`7 open("/r/a", O_RDONLY <unfinished ...>`, `8 open("/r/b", O_RDONLY) = 4 <0.1>`, `7 <... open resumed>) = 3 <0.1>`,
			`7 read(3,  <unfinished ...>`, `8 read(4, "x", 2) = 2 <0.1>`, `7 <... read resumed>"abc", 3) = 3 <0.1>`,
		), "open a\nopen b\nread a 0 3\nread b 0 2"},
		{"a descriptor that is free before its close is over", strace(
			`7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}, 88) = 8 <0.1>`,
			`7 open("/r/a", O_RDONLY) = 3 <0.1>`, `7 close(3 <unfinished ...>`, `8 open("/r/b", O_RDONLY) = 3 <0.1>`,
			`7 <... close resumed>) = 0 <0.1>`, `7 read(3, "x", 1) = 1 <0.1>`,
		), "open a\nclose a\nopen b\nread b 0 1"},
		{"processes have their own descriptors, and close them at their end", strace(
			`7 open("/r/a", O_RDONLY) = 3 <0.1>`, `7 fork() = 8 <0.1>`, `7 close(3) = 0 <0.1>`, `8 read(3, "x", 1) = 1 <0.1>`,
			`8 open("/r/b", O_RDONLY|O_CLOEXEC) = 4 <0.1>`, `8 execve("/bin/x", ["x"], 0x7 /* 9 vars */) = 0 <0.1>`,
			`8 exit_group(0) = ?`, `8 +++ exited with 0 +++`,
		), "open a\nread a 0 1\nopen b\nclose b\nclose a"},
		{"a child that is seen before its clone is over", strace(
			`7 open("/r/a", O_RDONLY) = 3 <0.1>`, `7 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>`,
			`8 read(3, "x", 1) = 1 <0.1>`, `7 <... clone resumed>, child_tidptr=0x7) = 8 <0.1>`,
		), "open a\nread a 0 1"},
		{"a file that is known to be there is not made by O_CREAT", strace(
			`stat("/r/a", {st_mode=S_IFREG|0644, ...}) = 0 <0.1>`, `open("/r/a", O_RDWR|O_CREAT, 0600) = 3 <0.1>`,
			`open("/r/b", O_RDONLY) = 4 <0.1>`, `open("/r/b", O_RDWR|O_CREAT, 0600) = 5 <0.1>`,
		), "stat a\nopen a\nopen b\nopen b"},
		{"a renamed file that is open", strace(
			`open("/r/a", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3 <0.1>`, `rename("/r/a", "/r/b") = 0 <0.1>`, `write(3, "x", 1) = 1 <0.1>`,
		), "create a\nrename a b\nwrite b 0 1"},
	} {
		got, reported := imported(t, "/r", c.in)
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.what, got, c.want)
		}
		if reported.NotUnderstood > 0 {
			t.Errorf("%s: %s", c.what, reported)
		}
		var out bytes.Buffer
		ImportStrace(strings.NewReader(c.in), &out, "/r")
		if _, err := NewReplay(parsed(t, out.String()), nil, 0); err != nil {
			t.Errorf("%s: it cannot be replayed: %v", c.what, err)
		}
	}
}

func TestCallsLeftOutAreReported(t *testing.T) {
	_, reported := imported(t, "/r", strace(
		`open("/r/a", O_RDONLY) = 3 <0.1>`,
		`open("/r/none", O_RDONLY) = -1 ENOENT (No such file or directory) <0.1>`,
		`open("/etc/passwd", O_RDONLY) = 4 <0.1>`,
		`read(4, "x", 1) = 1 <0.1>`,
		`open("/root/x", O_RDONLY) = 5 <0.1>`,
		`mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000 <0.1>`,
		`mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000 <0.1>`,
		`sendfile(5, 3, NULL, 10) = 10 <0.1>`,
		`--- SIGCHLD {si_signo=SIGCHLD} ---`,
		`what is this`,
		`read(3, "without end`,
		`<... write resumed>) = 1`,
	)+"no time at all\n")
	const want = "1 operations; left out: 1 calls that failed, 3 on files outside of the root, 2 mmap, 1 sendfile; 4 lines not understood, the first is line 10"
	if reported.String() != want {
		t.Errorf("%s, want %s", reported, want)
	}
}

func TestTasksThatFollowEachOtherAreOneThread(t *testing.T) {
	var out bytes.Buffer
	if _, err := ImportStrace(strings.NewReader(strace(
		`7 stat("/r/a", {}) = 0`, `8 stat("/r/b", {}) = 0`, `8 +++ exited with 0 +++`, `9 stat("/r/c", {}) = 0`, `10 stat("/r/d", {}) = 0`,
	)), &out, "/r"); err != nil {
		t.Fatal(err)
	}
	read := parsed(t, out.String())
	for i, want := range []int64{0, 1, 1, 2} {
		if got := read.Threads[read.Operations[i].Thread]; got != want {
			t.Errorf("operation %d is of thread %d, want %d", i, got, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`"a b"`: "a b", `"\303\244"`: "ä", `"\0a\12"`: "\x00a\n", `"q\"\\"`: `q"\`, `""`: "", `"\t"`: "\t",
	} {
		if got, ok := unquote(text); !ok || got != want {
			t.Errorf("%s became %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{`"abc"...`, `abc`, `"`, `"a`, `"\8"`, `"\777"`, "0x7f"} {
		if got, ok := unquote(text); ok {
			t.Errorf("%s became %q", text, got)
		}
	}
}

func FuzzImportStrace(f *testing.F) {
	f.Add(strace(`open("/r/a", O_RDWR|O_CREAT, 0644) = 3 <0.1>`, `write(3, "x", 1) = 1 <0.1>`, `close(3 <unfinished ...>`))
	f.Add(strace(`creat() = 3`, `rename("/r/a", "/r/b") = 0`, `ftruncate(3) = 0`, `clone() = 8`, `8 execve() = 0`, `8 +++ exited with 0 +++`))
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		reported, err := ImportStrace(strings.NewReader(text), &out, "/r")
		if err != nil || reported.Operations == 0 {
			return
		}
		if _, err := Parse(&out, "t"); err != nil {
			t.Errorf("what was imported is no trace: %v", err)
		}
	})
}

// A program as strace really records it, replayed, leaves what the program left.
func TestARealStraceIsReplayed(t *testing.T) {
	root := t.TempDir()
	const script = `mkdir d; printf 12345 > "d/a b"; printf 678 >> "d/a b"; dd if="d/a b" of=copy bs=3 conv=fsync 2>/dev/null
		mv copy d/moved; sync d/moved; printf x > gone; rm gone; (printf y >> d/moved) & wait`
	output := filepath.Join(t.TempDir(), "strace")
	command := exec.Command("strace", "-f", "-ttt", "-T", "-o", output, "sh", "-c", script)
	command.Dir = root
	if text, err := command.CombinedOutput(); err != nil {
		t.Skipf("strace does not run here: %v %s", err, text)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	reported, err := ImportStrace(bytes.NewReader(text), &out, root)
	if err != nil || reported.NotUnderstood > 0 {
		t.Fatalf("%v, %s", err, reported)
	}
	_, directory, err := replayed(t, out.String(), 0, &calls{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if got, want := contents(t, directory), contents(t, root); got != want {
		t.Errorf("the replay left %s, the program %s, in\n%s", got, want, out.String())
	}
}
