import json
import urllib.request

url = "http://localhost:8501/v1/models/half_plus_two:predict"
body = json.dumps({"instances": [1.0, 2.0, 5.0]}).encode()

with urllib.request.urlopen(url, body, timeout=10) as reply:
    print(json.load(reply)["predictions"])
