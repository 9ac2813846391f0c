module example/embed

go 1.19
