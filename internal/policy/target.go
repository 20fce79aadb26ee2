package policy

// AppendPath appends the canonical path of a request target to dst.
func AppendPath(dst, target []byte) (path []byte, ok bool) { return append(dst, target...), true }

// Authority returns the authority of a target in absolute form
// ("http://host:80/path"), nil for other forms.
func Authority(target []byte) []byte { return nil }

// AppendHost appends the canonical host of a Host header to dst: lower case,
// without port and trailing dot.
func AppendHost(dst, raw []byte) (host []byte, ok bool) { return append(dst, raw...), true }
