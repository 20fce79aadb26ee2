package bucket

import "unsafe"

// physicalSets is an even number, so that no bucket has one candidate set only.
func physicalSets(n int) int { return 2 * ((n*spareNum + 2*spareDen - 1) / (2 * spareDen)) }

// SetBytes is what a set of 4 buckets of the shape costs at most, with its share of
// spare sets, links and marks: the unit in which a table is sized.
func (s *Shape) SetBytes() int {
	if s.Logged() {
		return setBytes + (ways*logBytes(s.burst)*spareNum+spareDen-1)/spareDen
	}
	return setBytes
}

// SetsIn is the number of sets to ask for in so many bytes, at least 1.
func (s *Shape) SetsIn(bytes int) int {
	n := min(bytes/s.SetBytes(), maxSets)
	for n > 1 && s.TableBytes(n) > bytes { // what is rounded up counts in small tables
		n--
	}
	return max(1, n)
}

// TableBytes is the memory of a table for 4·n buckets of the shape without its locks.
func (s *Shape) TableBytes(n int) int {
	m := physicalSets(n)
	bytes := m*(int(unsafe.Sizeof(set{}))+4) + (m/marksWord+1)*8
	if s.Logged() {
		bytes += m * ways * logBytes(s.burst)
	}
	return bytes
}
