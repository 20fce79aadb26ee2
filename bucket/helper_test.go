package bucket

// NewTable returns a table for 4·n buckets.
func NewTable(shape Shape, n int) (*Table, error) {
	t := new(Table)
	if err := t.Init(shape, n); err != nil {
		return nil, err
	}
	return t, nil
}
