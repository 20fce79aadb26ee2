package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fastlimit/fastlimit/internal/strictjson"
)

// key answers POST /v1/key: the hash shown in keys instead of a header's or cookie's value. It is only for
// operators, since callers can try out values.
func (f *Front) key(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, maxChangeBytes)
	if !ok {
		return
	}
	var q struct {
		Value string `json:"value"`
	}
	err := strictjson.Decode(body, &q)
	if err == nil && q.Value == "" {
		err = errors.New("value is missing or empty")
	}
	if err != nil {
		problem(w, http.StatusBadRequest, fmt.Sprintf(`the body names no value: %v; send for example {"value":"the API key"}`, err))
		return
	}
	b, err := json.Marshal(map[string]string{"key": f.HashKey(q.Value)})
	writeJSON(w, b, err)
}
