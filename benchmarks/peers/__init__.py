"""Other servers, each serving the same OpenVINO model file with the same default properties."""
