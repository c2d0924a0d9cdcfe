from noetl.cli.main import main

raise SystemExit(main())
