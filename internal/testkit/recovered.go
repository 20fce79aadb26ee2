package testkit

// Recovered is what f panics with, "" if it does not.
func Recovered(f func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			if text, _ = p.(string); text == "" {
				text = "not a string"
			}
		}
	}()
	f()
	return ""
}
