// SPDX-License-Identifier: GPL-3.0-or-later

package filesys

// Null does nothing and always succeeds: what a load costs without its system calls. Its files are
// empty, so that a read ends at once.
type Null struct{}

// nullDescriptor is one that no program has open, should it get out.
const nullDescriptor = 1 << 30

func (Null) Open(Name, int, uint32) (int, error)             { return nullDescriptor, nil }
func (Null) Close(int) error                                 { return nil }
func (Null) Read(int, []byte) (int, error)                   { return 0, nil }
func (Null) Pread(int, []byte, int64) (int, error)           { return 0, nil }
func (Null) Write(_ int, data []byte) (int, error)           { return len(data), nil }
func (Null) Pwrite(_ int, data []byte, _ int64) (int, error) { return len(data), nil }
func (Null) Seek(_ int, offset int64, _ int) (int64, error)  { return offset, nil }
func (Null) Fsync(int) error                                 { return nil }
func (Null) Fdatasync(int) error                             { return nil }
func (Null) Truncate(int, int64) error                       { return nil }
func (Null) ReadAhead(int, bool) error                       { return nil }
func (Null) Unlink(Name) error                               { return nil }
func (Null) Rename(_, _ Name) error                          { return nil }
func (Null) Mkdir(Name, uint32) error                        { return nil }
func (Null) Rmdir(Name) error                                { return nil }
func (Null) Stat(Name) (int64, error)                        { return 0, nil }
func (Null) Fstat(int) (int64, error)                        { return 0, nil }
func (Null) ReadDir(int, []byte) (int, error)                { return 0, nil }
func (Null) SyncAll() error                                  { return nil }
