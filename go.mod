module joulerig

go 1.25.0
