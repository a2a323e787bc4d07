package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
)

func main() {
	url := "http://localhost:8501/v1/models/half_plus_two:predict"
	body := strings.NewReader(`{"instances": [1.0, 2.0, 5.0]}`)
	reply, err := http.Post(url, "application/json", body)
	if err != nil {
		log.Fatal(err)
	}
	defer reply.Body.Close()

	var answer struct {
		Predictions []float32 `json:"predictions"`
		Error       string    `json:"error"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	if answer.Error != "" {
		log.Fatal(answer.Error)
	}
	fmt.Println(answer.Predictions)
}
