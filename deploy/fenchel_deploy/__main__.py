from fenchel_deploy.cli import main

main()
