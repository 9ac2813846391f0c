// Embed texts with Go's standard library, and compare the first two.
//
//	go run . http://localhost:8080 "A cat sleeps." "A kitten naps."
//
// The environment variable API_KEY is the server's key, if it has one.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"
)

const tries = 5

// response is the answer of /v1/embeddings: vectors in the order of the texts, or an error.
type response struct {
	Data []struct {
		Embedding []float64 `json:"embedding"`
	} `json:"data"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// embed returns a vector for each text. It repeats a request that the server has no room for.
func embed(url string, texts []string) ([][]float64, error) {
	body, err := json.Marshal(map[string]any{"input": texts})
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		status, wait, content, err := post(url+"/v1/embeddings", body)
		if err != nil {
			return nil, err
		}
		if try < tries && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
			time.Sleep(wait)
			continue
		}
		return vectors(status, content)
	}
}

// post sends JSON, and returns the status, the time to wait before another try, and the content.
func post(url string, body []byte) (int, time.Duration, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if key := os.Getenv("API_KEY"); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	return answer.StatusCode, time.Duration(max(seconds, 1)) * time.Second, content, err
}

func vectors(status int, content []byte) ([][]float64, error) {
	var answer response
	if err := json.Unmarshal(content, &answer); err != nil {
		return nil, fmt.Errorf("status %d: %w", status, err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d, %s: %s", status, answer.Error.Code, answer.Error.Message)
	}
	rows := make([][]float64, len(answer.Data))
	for i, item := range answer.Data {
		rows[i] = item.Embedding
	}
	return rows, nil
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func cosine(a, b []float64) float64 {
	var product, square, other float64
	for i := range a {
		product += a[i] * b[i]
		square += a[i] * a[i]
		other += b[i] * b[i]
	}
	return product / math.Sqrt(square*other)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: go run . URL TEXT TEXT …")
	}
	rows, err := embed(os.Args[1], os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d vectors of %d dimensions; cosine of the first two: %.6f\n",
		len(rows), len(rows[0]), cosine(rows[0], rows[1]))
}
