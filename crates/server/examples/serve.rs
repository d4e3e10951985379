//! Serves a data directory until it is interrupted by the end of its standard input:
//! `cargo run -p incumbent-server --example serve -- DATA_DIR [ADDRESS]`

use std::io::Read as _;

use incumbent_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut builder = Server::builder();
    if let Some(dir) = args.next() {
        builder = builder.data_dir(dir);
    }
    if let Some(addr) = args.next() {
        builder = builder.listen(addr.parse()?);
    }
    let server = builder.start().await?;
    println!("{} {}", server.url(), server.token());
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
    server.shutdown().await;
    Ok(())
}
