// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import "math/bits"

// bitmap is a set of small numbers that is searched in rotation.
type bitmap []uint64

func newBitmap(size int) bitmap { return make(bitmap, (size+63)/64) }

func (b bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bitmap) add(i int) { b[i/64] |= 1 << (i % 64) }

func (b bitmap) remove(i int) { b[i/64] &^= 1 << (i % 64) }

// next is the first number in b from start on, beginning again at 0 after the end; -1 if b is
// empty.
func (b bitmap) next(start int) int {
	if i := b.firstFrom(start); i >= 0 {
		return i
	}
	return b.firstFrom(0)
}

// firstFrom is the first number in b from start on; -1 if there is none.
func (b bitmap) firstFrom(start int) int {
	word := start / 64
	if word >= len(b) {
		return -1
	}
	if rest := b[word] >> (start % 64); rest != 0 {
		return start + bits.TrailingZeros64(rest)
	}
	for word++; word < len(b); word++ {
		if b[word] != 0 {
			return 64*word + bits.TrailingZeros64(b[word])
		}
	}
	return -1
}
