package bucket

import "unsafe"

// physicalSets returns an even number, so that every bucket has two candidate sets.
func physicalSets(n int) int { return 2 * ((n*spareNum + 2*spareDen - 1) / (2 * spareDen)) }

// SetBytes returns the maximum memory of a set of 4 buckets of the shape, with its share of
// spare sets, links and marks: the unit in which a table is sized.
func (s *Shape) SetBytes() int {
	if s.Logged() {
		return setBytes + (ways*logBytes(s.burst)*spareNum+spareDen-1)/spareDen
	}
	return setBytes
}

// SetsIn returns the number of sets to request for so many bytes, at least 1.
func (s *Shape) SetsIn(bytes int) int {
	n := min(bytes/s.SetBytes(), maxSets)
	for n > 1 && s.TableBytes(n) > bytes { // rounding matters in small tables
		n--
	}
	return max(1, n)
}

// TableBytes returns the memory of a table for 4·n buckets of the shape, without its locks.
func (s *Shape) TableBytes(n int) int {
	m := physicalSets(n)
	bytes := m*(int(unsafe.Sizeof(set{}))+4) + (m/marksWord+1)*8
	if s.Logged() {
		bytes += m * ways * logBytes(s.burst)
	}
	return bytes
}
