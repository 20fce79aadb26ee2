package sketch

// NewLeaky returns a sketch of n blocks.
func NewLeaky(n int, limit uint64) (*Leaky, error) {
	s := new(Leaky)
	if err := s.Init(n, limit); err != nil {
		return nil, err
	}
	return s, nil
}
